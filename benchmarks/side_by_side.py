"""The frame of a timing side by side: contestants in turn, ratios with their spread, a stamp.

In turn, so that a slow moment of the machine meets all contestants; and each round's ratio counts
by itself, so that what slows a whole round leaves it as it is.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from bookkit.authoring.study import Study, start_study

R = TypeVar("R")
T = TypeVar("T")
WATCHED = ("nbkit", "benchmarks")


class Spread(NamedTuple):
    """The median of some values and how far they lie apart."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Median, least and most.

    Raises:
        ValueError: there is no value.

    """
    if not values:
        raise ValueError("values is empty; a spread needs a round at least")
    return Spread(statistics.median(values), min(values), max(values))


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Round by round the first over the second.

    Raises:
        ValueError: not as many rounds of the one as of the other.

    """
    return [a / b for a, b in zip(over, under, strict=True)]


def now(gpu: bool | None = None) -> float:
    """Seconds: of the clock once the GPU has done all; of this process's processor without a GPU.

    Other work on the machine disturbs the processor's time less than that of the clock.

    Args:
        gpu: whether one works; None: whether there is one.

    """
    if torch.cuda.is_available() if gpu is None else gpu:
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def seconds(function: Callable[[], Any], gpu: bool | None = None) -> float:
    """Of one call."""
    start = now(gpu)
    function()
    return now(gpu) - start


def in_turn(
    contestants: Mapping[str, Callable[[R], T]],
    rounds: Iterable[R],
    tell: Callable[[str, R, T], None] = lambda name, number, found: None,
) -> dict[str, list[T]]:
    """Every contestant in every round.

    Args:
        contestants: called with the round.
        rounds: such as seeds.
        tell: called after each with its name, the round and what it returned.

    Returns:
        what each returned, in the order of the rounds.

    """
    found: dict[str, list[T]] = {name: [] for name in contestants}
    for number in rounds:
        for name, contestant in contestants.items():
            found[name].append(contestant(number))
            tell(name, number, found[name][-1])
    return found


def timed_in_turn(
    contestants: Mapping[str, Callable[[], Any]], rounds: int, gpu: bool | None = None
) -> dict[str, list[float]]:
    """Seconds of every contestant in every round; warm them up before."""

    def clocked(contestant: Callable[[], Any]) -> Callable[[int], float]:
        return lambda _: seconds(contestant, gpu)

    clocks = {name: clocked(contestant) for name, contestant in contestants.items()}
    return in_turn(clocks, range(rounds))


def start(out: Path | None, *, seeds: Sequence[int], config: Mapping[str, Any]) -> Study:
    """Note what a stamp needs before the measurement; its ``finish`` writes the result.

    Args:
        out: the result file; None: nothing is written.
        seeds: of the measurement.
        config: its settings.

    """
    return start_study(out, seeds=seeds, config=config, watched=WATCHED)
