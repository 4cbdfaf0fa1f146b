"""Lengths of completions with a long tail, for arithmetic about machines."""

import math

import numpy as np
from numpy.typing import NDArray

from nbkit._inputs import check_number

Lengths = NDArray[np.int64]


def draw_lengths(
    rng: np.random.Generator,
    groups: int,
    group_size: int,
    *,
    mean: float,
    tail: float,
    longest: int,
) -> Lengths:
    """Draw the tokens of each completion from a log-normal distribution.

    The logarithm of a length is normal with standard deviation `tail`. Its mean is set so that the
    mean length is `mean` for every tail; the limit `longest` cuts that a little.

    Args:
        rng: numpy's generator.
        groups: rows.
        group_size: completions of each group.
        mean: tokens of a completion, before the limit.
        tail: standard deviation of the logarithm; 0 makes all lengths equal.
        longest: limit of a completion, tokens.

    Returns:
        (groups, group_size) whole numbers from 1 to `longest`.

    Raises:
        ValueError: a count below 1, a negative tail, or a mean above the limit.

    """
    check_number("groups", groups, 1)
    check_number("group_size", group_size, 1)
    check_number("longest", longest, 1)
    check_number("mean", mean, 1.0, longest)
    check_number("tail", tail, 0.0)
    normal = rng.standard_normal((groups, group_size))
    drawn = mean * np.exp(tail * normal - tail**2 / 2)
    return np.clip(np.rint(drawn), 1, longest).astype(np.int64)


def tail_ratio(completions: int, tail: float) -> float:
    """How much longer the longest of many completions is than their mean, roughly.

    The largest of n normal numbers lies near sqrt(2 log n) (Embrechts, Klüppelberg and Mikosch
    1997, section 3.3), so the longest of n log-normal lengths is near
    exp(tail · sqrt(2 log n) − tail² / 2) means. The limit on a length is left out.

    Args:
        completions: n, at least 1.
        tail: standard deviation of the logarithm.

    """
    check_number("completions", completions, 1)
    check_number("tail", tail, 0.0)
    return math.exp(tail * math.sqrt(2 * math.log(completions)) - tail**2 / 2)
