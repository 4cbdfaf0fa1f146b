"""nbkit.exercises."""
