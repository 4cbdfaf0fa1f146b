"""Ask an oracle: plain Python numbers in, plain Python numbers out."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.exercise import Exercise, Output
from bookkit.exercises.tree import map_tensors

STEP = 1e-5
MOST_ELEMENTS = 40
DTYPES = {"float": torch.float64, "bool": torch.bool, "int": torch.int64}


def to_plain(value: Any) -> Any:
    """Tensors become nested lists of Python numbers; anything else stays as it is."""
    return map_tensors(Tensor.tolist, value)


def ask(exercise: Exercise, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The oracle's answers, one per output; float, bool and int ones as (float64) tensors."""
    answer = exercise.oracle(**{name: to_plain(value) for name, value in inputs.items()})
    leaves = answer if len(exercise.outputs) > 1 else (answer,)
    return tuple(_as_leaf(o, v) for o, v in zip(exercise.outputs, leaves, strict=True))


def _as_leaf(output: Output, value: Any) -> Any:
    if output.kind in DTYPES:
        return torch.tensor(value, dtype=DTYPES[output.kind])
    return value


def cotangents(exercise: Exercise, answers: tuple[Any, ...]) -> list[Tensor | None]:
    """Fixed weights, one tensor per float output, that make one scalar of all outputs."""
    generator = torch.Generator().manual_seed(12345)
    weights: list[Tensor | None] = []
    for output, answer in zip(exercise.outputs, answers, strict=True):
        if output.kind != "float":
            weights.append(None)
            continue
        values = torch.rand(answer.shape, generator=generator, dtype=torch.float64)
        weights.append(values + 0.5 if answer.dim() else torch.ones((), dtype=torch.float64))
    return weights


def expected_gradients(exercise: Exercise, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    """Central differences of the oracle's weighted sum, for each input of ``gradient_to``.

    An input with more than ``MOST_ELEMENTS`` elements is left out.
    """
    plain = {name: to_plain(value) for name, value in inputs.items()}
    weights = cotangents(exercise, ask(exercise, inputs))
    gradients: dict[str, Tensor] = {}
    for name in exercise.gradient_to:
        point = inputs[name]
        if point.numel() > MOST_ELEMENTS:
            continue
        slopes = torch.zeros(point.numel(), dtype=torch.float64)
        for index in range(point.numel()):
            above, below = (
                _weighted(exercise, plain, weights, name, _moved(point, index, step))
                for step in (STEP, -STEP)
            )
            slopes[index] = math.fsum(
                w * (a - b) for w, a, b in zip(_flat(weights), above, below, strict=True) if a != b
            ) / (2 * STEP)
        gradients[name] = slopes.reshape(point.shape)
    return gradients


def _moved(point: Tensor, index: int, step: float) -> Any:
    moved = point.clone().double()
    moved.view(-1)[index] += step
    return moved.tolist()


def _flat(weights: list[Tensor | None]) -> list[float]:
    return [value for w in weights if w is not None for value in w.reshape(-1).tolist()]


def _weighted(
    exercise: Exercise, plain: dict[str, Any], weights: list[Tensor | None], name: str, value: Any
) -> list[float]:
    answer = exercise.oracle(**{**plain, name: value})
    leaves = answer if len(exercise.outputs) > 1 else (answer,)
    numbers: list[float] = []
    for weight, leaf in zip(weights, leaves, strict=True):
        if weight is not None:
            numbers += torch.tensor(leaf, dtype=torch.float64).reshape(-1).tolist()
    return numbers
