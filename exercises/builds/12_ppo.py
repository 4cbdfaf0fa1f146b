"""Build 12: PPO in one file, yours.

The specification is book/builds/12_ppo.md. Run it with `nbkit build 12`.
"""


def train(env, settings, *, seed, log):
    """Train an agent and return it: a function from observations to logits and values."""
    raise NotImplementedError
