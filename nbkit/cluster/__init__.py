"""What a cluster job is made of: its description, and the shell code that its scripts read."""
