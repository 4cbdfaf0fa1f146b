"""Build 41: an arm that moves a puck, yours.

The specification is book/builds/41_push.md. Run it with `nbkit build 41`.
"""


def train(env, settings, *, seed, log):
    """Train an agent and return it: a function from observations to actions and values."""
    raise NotImplementedError
