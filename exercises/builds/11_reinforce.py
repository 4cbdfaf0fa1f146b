"""Build 11: REINFORCE that keeps its language, yours.

The specification is book/builds/11_reinforce.md. Run it with `nbkit build 11`.
"""


def train(writer, world, settings, *, seed, log):
    """Train the writer that is given to earn more, near to how it wrote; return it."""
    raise NotImplementedError
