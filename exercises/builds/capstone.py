"""The name of your method, in one line: the board shows it.

The specification is book/builds/capstone.md. Run it with `nbkit build capstone`.
"""


def train(pupil, world, *, seed, log):
    """Train the pupil to be right on sums that it has not seen; return it."""
    raise NotImplementedError
