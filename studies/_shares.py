"""Shares of right answers: their intervals, and what k attempts would solve."""

import math
from collections.abc import Sequence

from nbkit._inputs import check_number


def wilson(right: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Ends of the 95 % interval of a share (Wilson, 1927, doi:10.1080/01621459.1927.10502953).

    Args:
        right: successes, 0 to `count`.
        count: trials, at least 1.
        z: of the level.

    """
    check_number("count", count, 1)
    check_number("right", right, 0, count)
    share, square = right / count, z * z / count
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return (middle - half) / (1 + square), (middle + half) / (1 + square)


def solved_by(k: int, right: Sequence[int], samples: int) -> float:
    """Share of problems that k of their samples solve, unbiased (Chen et al., arXiv:2107.03374).

    Args:
        k: attempts, at most `samples`.
        right: right samples of each problem.
        samples: of each problem.

    """
    check_number("k", k, 1, samples)
    missed = [math.comb(samples - count, k) / math.comb(samples, k) for count in right]
    return 1 - sum(missed) / len(missed)
