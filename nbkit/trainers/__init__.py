"""Training loops, each the tidy form of the one that a chapter builds."""
