"""What no schedule can beat: least seconds of a run, by arithmetic alone.

Three things limit the end of update u. Its batch is trained after the batch before. Its groups may
be started only after update u − η − 1, and the longest of its completions takes its time. And all
tokens up to then had to be decoded by the slots there are.
"""

import numpy as np
from numpy.typing import NDArray

from nbkit._inputs import check_number
from nbkit.asynchronous.machines import (
    Machines,
    Scheme,
    pause_seconds,
    sampling_devices,
    training_seconds,
)


def sampling_seconds(lengths: NDArray[np.int64], slots: int, token_seconds: float) -> float:
    """Least seconds in which `slots` slots decode completions of these lengths (any shape).

    The longest completion is decoded token by token, and a slot decodes one token at a time
    (Graham 1969, the two bounds on a schedule of parallel machines).
    """
    return token_seconds * max(float(lengths.max()), float(lengths.sum()) / slots)


def work_seconds(tokens: int, machines: Machines, scheme: Scheme) -> float:
    """Least seconds to sample and to train `tokens` tokens, whatever the order of the work.

    Shared devices do both in turn, so the times add; otherwise the slower side counts.
    """
    slots = sampling_devices(machines, scheme) * machines.slots
    sampling = tokens * machines.token_seconds / slots
    training = training_seconds(tokens, machines, scheme)
    return sampling + training if scheme.shared else max(sampling, training)


def least_seconds(
    lengths: NDArray[np.int64], prompts: int, machines: Machines, scheme: Scheme
) -> float:
    """Least seconds until all groups are trained.

    With groups taken as they "finished" the batches are not known beforehand, and only the work
    bounds the run.

    Args:
        lengths: (groups, group_size) tokens; groups is a multiple of `prompts`.
        prompts: groups a batch.
        machines: the devices.
        scheme: the rule.

    Raises:
        ValueError: groups that do not fill the last batch.

    """
    batches = in_batches(lengths, prompts)
    if scheme.order == "finished":
        return work_seconds(int(lengths.sum()), machines, scheme)
    slots = sampling_devices(machines, scheme) * machines.slots
    pause = pause_seconds(machines, scheme)
    before = machines.switch_seconds if scheme.shared else 0.0  # from sampling to training
    ends: list[float] = []
    sampled = decoded = 0.0  # when the batch before was complete; seconds of all slots so far
    for at, batch in enumerate(batches):
        may_start = ends[at - scheme.staleness - 1] + pause if at > scheme.staleness else 0.0
        if scheme.barrier:
            may_start = max(may_start, sampled)
        decoded += float(batch.sum()) * machines.token_seconds / slots
        sampled = max(decoded, may_start + sampling_seconds(batch, slots, machines.token_seconds))
        ready = max(sampled + before, ends[-1] if ends else 0.0)
        ends.append(ready + training_seconds(int(batch.sum()), machines, scheme))
    return ends[-1]


def in_batches(lengths: NDArray[np.int64], prompts: int) -> list[NDArray[np.int64]]:
    """Cut (groups, group_size) lengths into batches of `prompts` groups.

    Raises:
        ValueError: groups that do not fill the last batch.

    """
    check_number("prompts", prompts, 1)
    if lengths.ndim != 2 or not len(lengths) or len(lengths) % prompts:
        raise ValueError(
            f"lengths must be (groups, group_size) with a multiple of prompts={prompts} groups; "
            f"got shape {lengths.shape}"
        )
    return [lengths[at : at + prompts] for at in range(0, len(lengths), prompts)]


def largest_gain(sampling: float, training: float) -> float:
    """Most that overlap can gain over taking turns on the same devices: (a + b) / max(a, b).

    Args:
        sampling: seconds of sampling an update, a.
        training: seconds of training an update, b.

    Returns:
        a factor from 1 to 2.

    Raises:
        ValueError: a time that is not positive.

    """
    check_number("sampling", sampling, 0.0, open_low=True)
    check_number("training", training, 0.0, open_low=True)
    return (sampling + training) / max(sampling, training)
