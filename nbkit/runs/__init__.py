"""Runs: what a program writes down as it goes, where it ran, and how it goes on after a stop."""
