"""Intervals over paired seeds, by Student's t."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from studies._arms import Run

# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values: Sequence[float]) -> list[float]:
    """Mean, and the two ends of its 95 % interval by Student's t over the seeds."""
    x = torch.tensor(list(values), dtype=torch.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return [mean, mean, mean]
    half = _T[min(len(x) - 2, len(_T) - 1)] * float(x.std()) / len(x) ** 0.5
    return [round(mean, 4), round(mean - half, 4), round(mean + half, 4)]


def summary(
    runs: Mapping[str, Sequence[Run]], against: Mapping[str, str] | str
) -> dict[str, dict[str, Any]]:
    """Intervals of each arm, and of its difference to another arm on the same seeds.

    Args:
        runs: of each arm, in the order of the seeds.
        against: the arm that all, or each, are compared with.

    """
    result = {}
    for name, arm in runs.items():
        row: dict[str, Any] = {
            key: interval([run["after"][key] for run in arm])
            for key in ("accuracy", "greedy", "format", "length")
        }
        for key in ("entropy", "silent_groups", "discarded", "updates", "seconds"):
            if all(key in run for run in arm):
                row[key] = interval([run[key] for run in arm])
        other = against if isinstance(against, str) else against.get(name, name)
        row["against"] = other
        row["difference"] = interval(
            [
                a["after"]["accuracy"] - b["after"]["accuracy"]
                for a, b in zip(arm, runs[other], strict=True)
            ]
        )
        result[name] = row
    return result
