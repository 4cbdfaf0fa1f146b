"""Asynchronous reinforcement learning: one process samples, another learns."""
