"""nbkit.rewards."""
