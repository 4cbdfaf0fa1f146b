"""Build 21: a reward model, and PPO within a KL budget, yours.

The specification is book/builds/21_rlhf.md. Run it with `nbkit build 21`.
"""


def train_reward_model(policy, world, settings, *, seed, log):
    """Train a reward model from comparisons; return it: ids, mask (B, L) to scores (B,)."""
    raise NotImplementedError


def train_policy(policy, reward_model, world, settings, *, seed, log):
    """Train the policy to earn more, near to how it began; return it and its values (B, L)."""
    raise NotImplementedError
