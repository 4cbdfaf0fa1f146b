"""Build 35: asynchronous GRPO, yours.

The specification is book/builds/35_asynchronous.md. Run it with `nbkit build 35`.
"""


def train(policy, world, settings, *, log):
    """Train on groups that a generator draws meanwhile, each once; return the policy."""
    raise NotImplementedError
