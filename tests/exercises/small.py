"""A small exercise on which the machinery itself is tested."""

from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Exercise, Mutant, Output


def weighted_sum(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """(B, T), (B, T), bool (B, T) -> (B,): the sum of weights · x, the weights being constants."""
    x = torch.where(mask, x, 0.0)
    return (torch.where(mask, weights.detach(), 0.0) * x).sum(dim=1)


def oracle(x: list[list[float]], weights: list[list[float]], mask: list[list[bool]]) -> list[float]:
    rows = zip(x, weights, mask, strict=True)
    return [sum(a * w for a, w, m in zip(*row, strict=True) if m) for row in rows]


def cases(draw: Draw) -> Case:
    rows, columns = draw.dimension(), draw.dimension()
    mask = draw.holed_mask(rows, columns)
    return Case(
        f"{rows} × {columns}",
        {"x": draw.normal(rows, columns), "weights": draw.normal(rows, columns), "mask": mask},
    )


def edges() -> tuple[Case, ...]:
    nan = float("nan")
    one = torch.ones(1, 1, dtype=torch.float64)
    return (
        Case("one step", {"x": 2 * one, "weights": 3 * one, "mask": one.bool()}),
        Case("empty mask", {"x": 2 * one, "weights": 3 * one, "mask": ~one.bool()}),
        Case(
            "nan under the mask",
            {
                "x": torch.tensor([[1.0, nan, 2.0]], dtype=torch.float64),
                "weights": torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64),
                "mask": torch.tensor([[True, False, True]]),
            },
        ),
    )


def no_mask(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return (x * weights.detach()).sum(dim=1)


def not_detached(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return (torch.where(mask, x, 0.0) * weights).sum(dim=1)


def mean(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return weighted_sum(x, weights, mask) / x.shape[1]


def small_exercise(**changes: Any) -> Exercise:
    values: dict[str, Any] = {
        "id": "small.sum.1",
        "title": "A weighted sum",
        "chapter": 99,
        "difficulty": 1,
        "minutes": 5,
        "goal": "Sum the weighted entries that count.",
        "outputs": (Output("total", "(B,)"),),
        "cases": cases,
        "edges": edges,
        "oracle": oracle,
        "reference": weighted_sum,
        "mutants": (
            Mutant("no mask", no_mask, "the mask is never used, so masked entries count as well"),
            Mutant("not detached", not_detached, "the weights must be constants: detach them"),
            Mutant("mean", mean, "this is the mean over the columns, not the sum over them"),
        ),
        "not_tested": "speed.",
        "gradient_to": ("x",),
        "no_gradient_to": ("weights",),
        "time_limit_s": 1.0,
    }
    return Exercise(**{**values, **changes})
