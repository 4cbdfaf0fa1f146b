"""The rule of admission: how many groups may have been started while the trainer is at a version.

Batch number v (from 0) is trained on by weights of version v and makes version v + 1. Group number
n stands in batch n // B, if groups are trained on in the order in which they were started. To be at
most η versions old there, it must be started at version n // B - η or later.
"""

from nbkit._inputs import check_number


def admitted(version: int, batch_size: int, staleness: int) -> int:
    """Most groups that may have been started since the run began, (η + v + 1) · B.

    AReaL (Fu et al., arXiv:2505.24298), its bound on N_r, with completions counted in groups.

    Args:
        version: updates v that the trainer has made, from 0.
        batch_size: groups B of an update.
        staleness: versions η that the weights of a group's first token may be behind.

    Raises:
        ValueError: a negative number, or no groups in a batch.

    """
    check_number("version", version, 0)
    check_number("batch_size", batch_size, 1)
    check_number("staleness", staleness, 0)
    return (staleness + version + 1) * batch_size


def may_start(
    started: int, version: int, batch_size: int, staleness: int, *, last: int | None = None
) -> int:
    """How many more groups may be started now; 0: the generator has to wait.

    Args:
        started: groups that were started since the run began. One that is asked again after a
            crash, or because it was dropped, is the same group, and is counted once.
        version: see ``admitted``.
        batch_size: see ``admitted``.
        staleness: see ``admitted``.
        last: groups of the whole run; None: it has no end.

    Raises:
        ValueError: as ``admitted``; more started than the rule has ever allowed.

    """
    most = admitted(version, batch_size, staleness)
    if not 0 <= started <= most:
        raise ValueError(
            f"started is {started}, but at version {version} at most {most} groups may have been "
            "started: the counts of generator and trainer do not belong together"
        )
    return max(0, (most if last is None else min(most, last)) - started)


def oldest_in_batch(batch_number: int, staleness: int) -> int:
    """The oldest version that a token of this batch may have been sampled by.

    Args:
        batch_number: v, counted from 0.
        staleness: η.

    """
    check_number("batch_number", batch_number, 0)
    check_number("staleness", staleness, 0)
    return max(0, batch_number - staleness)
