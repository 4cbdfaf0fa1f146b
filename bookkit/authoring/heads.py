"""Heads of studies: figures of the first seconds, which CI computes anew and compares.

A head stands in ``studies/heads/NAME.json``, apart from the result, because it is made anew when
the code has changed while the long result is not run again:

    {"head_stamp": where and from what it was computed, "head": {figure: value},
     "head_spread": {figure: largest less smallest value over the draws}, "head_draws": [names]}

A figure is called "arm: metric 2" or only "metric". Its tolerance is absolute and stands in the
script, for the figure or for its metric.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbkit.errors import UserError

FOLDER = "studies/heads"
# Another processor is another draw, so a tolerance covers the spread of the known ones twice.
SPREADS = 2.0
Figures = Mapping[str, float]


class StudyMismatch(AssertionError):  # noqa: N818 - a verdict, like RecordMismatch
    """The beginning of a study no longer gives the stored figures."""


def head_file(root: Path, name: str) -> Path:
    """Where the head of a study stands."""
    return root / FOLDER / f"{name}.json"


def read_head(root: Path, name: str) -> dict[str, Any]:
    """What is stored of a study's head.

    Raises:
        UserError: nothing is.

    """
    path = head_file(root, name)
    if not path.is_file():
        raise UserError(f"{FOLDER}/{name}.json does not exist; run `nbkit study {name} --draws`")
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return stored


def tolerance_of(figure: str, tolerances: Mapping[str, float]) -> float:
    """The tolerance of a figure: its own, or that of its metric.

    Raises:
        KeyError: it has none.

    """
    metric = re.sub(r" \d+$", "", figure.rpartition(": ")[2])
    for name in (figure, metric):
        if name in tolerances:
            return tolerances[name]
    raise KeyError(f"head: figure {figure!r} has no tolerance; give {metric!r} one")


def compare_head(stored: Figures, fresh: Figures, tolerances: Mapping[str, float]) -> None:
    """Compare the first figures of a study with the stored ones.

    Args:
        stored: of the head file.
        fresh: the same, computed now.
        tolerances: the largest absolute difference that counts as agreement, by figure or metric.

    Raises:
        StudyMismatch: other figures, or some outside their tolerance.
        KeyError: a figure without a tolerance.

    """
    other = sorted(stored.keys() ^ fresh.keys())
    if other:
        raise StudyMismatch(
            f"head: {other[0]!r} stands on one side only; store the new head by `nbkit study "
            "NAME --draws`"
        )
    wrong = [
        f"{name}: {fresh[name]:.6g} now, {stored[name]:.6g} stored, tolerance {tolerance:g}"
        for name in stored
        if not abs(stored[name] - fresh[name]) <= (tolerance := tolerance_of(name, tolerances))
    ]
    if wrong:
        raise StudyMismatch(f"head: {len(wrong)} of {len(stored)} figures moved; {wrong[0]}")


def spread_of(draws: Sequence[Figures]) -> dict[str, float]:
    """Largest less smallest value of each figure; infinite where one is not finite.

    Raises:
        UserError: the draws do not hold the same figures.

    """
    if len({tuple(sorted(figures)) for figures in draws}) > 1:
        raise UserError("head: its figures have other names on other draws; they must not")
    found = {}
    for name in draws[0]:
        values = [figures[name] for figures in draws]
        found[name] = max(values) - min(values) if all(map(math.isfinite, values)) else math.inf
    return found


def too_tight(spread: Figures, tolerances: Mapping[str, float]) -> list[str]:
    """Figures whose tolerance is below twice their spread."""
    return [name for name in spread if tolerance_of(name, tolerances) < SPREADS * spread[name]]


def proves_nothing(head: Figures, tolerances: Mapping[str, float]) -> list[str]:
    """The wrong heads that would pass: all zeros, every figure the mean of all."""
    mean = sum(head.values()) / max(1, len(head))
    wrong = {"zeros": dict.fromkeys(head, 0.0), "its own mean": dict.fromkeys(head, mean)}
    return [name for name, figures in wrong.items() if _agrees(head, figures, tolerances)]


def _agrees(stored: Figures, fresh: Figures, tolerances: Mapping[str, float]) -> bool:
    try:
        compare_head(stored, fresh, tolerances)
    except StudyMismatch:
        return False
    return True
