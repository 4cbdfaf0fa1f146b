"""Reward functions and verifiers."""
