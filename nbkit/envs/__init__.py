"""nbkit.envs."""
