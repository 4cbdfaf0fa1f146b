"""nbkit.authoring."""
