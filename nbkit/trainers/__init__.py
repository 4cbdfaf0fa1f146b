"""nbkit.trainers."""
