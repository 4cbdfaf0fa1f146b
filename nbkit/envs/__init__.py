"""Environments: text worlds written from scratch, and adapters to gymnasium."""
