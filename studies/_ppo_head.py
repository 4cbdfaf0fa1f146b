"""What the heads of studies with ``PPOTrainer`` share: metrics of its first updates."""

METRICS = ("policy_loss", "value_loss", "gradient_norm", "kl", "explained_variance")
TOLERANCES = {
    **{"policy_loss": 1e-4, "value_loss": 1e-3, "gradient_norm": 1e-3, "kl": 1e-4},
    "explained_variance": 1e-3,
}
