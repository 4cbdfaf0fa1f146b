"""The name that chapter 22 knows ``nbkit.trainers.checkpoint`` by."""

from nbkit.trainers.checkpoint import resume, save

__all__ = ["resume", "save"]
