"""Cases with one entry far from the others, and masks with holes: where unasked limits show.

A clamp, a floor or a first-n mask is right as long as no case reaches beyond it. A check names the
inputs that may be any number (`wide`), and the masks that may have holes (`holed`); for each, cases
are made of drawn ones.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check
from bookkit.exercises.tree import map_tensors, tensors_in

FAR = (30.0, 60.0)  # between these lies an outlier; exp of it still fits into a float64
LOG_FAR = (12.0, 16.0)
DOWN = 60.0
TIMES = 3  # cases for each input and side: one alone may fall under a mask or behind a minimum
USUAL = 10.0  # what is drawn lies mostly within; where it does not, an outlier lies further out
SIZE = 4
TRIES = 20  # to draw a case in which there is something to change


def wide_cases(check: Check, seed: int) -> list[Case]:
    """Cases for each wide input and each holed mask.

    A wide input gets an entry far below the others and one far above, and all its entries times
    twenty. A logarithm of a probability, which its name tells, has nothing far above, and what is
    below is less far, because exp of a difference beyond 20 is where careful code stops; several of
    them are also moved down together, at one place, so that their difference stays.
    """
    found = []
    logs = [name for name in check.wide if _is_log(name)]
    for place, name in enumerate(check.wide):
        draw = Draw(seed * 1000 + 500 + place, SIZE)
        for sign in (-1.0,) if name in logs else (-1.0, 1.0):
            for _ in range(TIMES):
                change = _outlier(draw, sign, LOG_FAR if name in logs else FAR)
                found += _made(check, draw, (name,), "one far entry in", change)
        for _ in range(0 if name in logs else TIMES):
            found += _made(check, draw, (name,), "twenty times", _times_twenty)
    if len(logs) > 1:
        draw = Draw(seed * 1000 + 600, SIZE)
        for _ in range(TIMES):
            found += _made(check, draw, tuple(logs), "one place far down in", _moved_down)
    for place, name in enumerate(check.holed):
        draw = Draw(seed * 1000 + 700 + place, SIZE)
        for _ in range(TIMES):
            found += _made(check, draw, (name,), "holes in", _holes(draw), gradient=True)
    return found


def _is_log(name: str) -> bool:
    return "log" in name and "logit" not in name


def _made(
    check: Check,
    draw: Draw,
    names: tuple[str, ...],
    what: str,
    change: Callable[[Tensor], Tensor],
    *,
    gradient: bool = False,
) -> list[Case]:
    """A drawn case with some inputs changed; none if no case has anything to change."""
    for _ in range(TRIES):
        case = check.cases(draw)
        if not all(_has_several(case.inputs[name]) for name in names):
            continue
        inputs: dict[str, Any] = dict(case.inputs)
        for name in names:
            value = case.inputs[name]
            inputs[name] = map_tensors(change, value)
            for twin in check.hidden:  # a frozen copy of an input stays its copy
                if _same(case.inputs[twin], value):
                    inputs[twin] = inputs[name]
        title = f"{case.name}, {what} {' and '.join(f'`{name}`' for name in names)}"
        return [Case(title, inputs, gradient=gradient and case.gradient, is_wide=True)]
    return []


def _has_several(value: Any) -> bool:
    return any(tensor.numel() > 1 for tensor in tensors_in(value))


def _same(one: Any, other: Any) -> bool:
    both = isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
    return both and torch.equal(one, other)


def _outlier(draw: Draw, sign: float, between: tuple[float, float]) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        changed = tensor.clone()
        place = draw.integer(0, tensor.numel() - 1)
        finite = tensor[tensor.isfinite()].abs()
        largest = float(finite.max()) if finite.numel() else 0.0
        far = float(draw.uniform(*between)) * max(1.0, largest / USUAL)
        changed.view(-1)[place] = sign * round(far, 2)
        return changed

    return change


def _times_twenty(tensor: Tensor) -> Tensor:
    return tensor * 20.0 if tensor.is_floating_point() else tensor


def _moved_down(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    changed = tensor.clone()
    changed.view(-1)[tensor.numel() // 2] -= DOWN
    return changed


def _holes(draw: Draw) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        if tensor.dtype != torch.bool or tensor.dim() != 2:
            return tensor
        holed = draw.holed_mask(*tensor.shape)
        holed[:, -1] |= ~holed.any(dim=1)  # no row loses all of its places
        holed[0, 0], holed[0, -1] = False, True
        return holed

    return change
