"""Wrong answers of one kind: the reference with a clamp, a floor or a shortcut not asked for.

Such a function is right wherever its limits are not reached. So a check must draw, or hold among
its edges, what lies beyond them; the sweep finds where none does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.bench import Bench
from bookkit.exercises.compare import find_problem
from bookkit.exercises.exercise import Exercise, call_with_inputs
from bookkit.exercises.observe import observe, random_state_kept
from bookkit.exercises.tree import map_tensors, tensors_in

LIMITS = (1.0, 2.0, 3.0, 10.0)
FLOOR = 1e-3
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Variant:
    """A spoilt reference: what is done to which of its inputs or outputs."""

    name: str
    function: Callable[..., Any]


def survivors(bench: Bench) -> list[str]:
    """The names of the variants that pass."""
    return [v.name for v in variants(bench) if passes(bench, v.function)]


def passes(bench: Bench, function: Callable[..., Any]) -> bool:
    """Whether a function is right in every run; stops at the first that it gets wrong."""
    exercise = bench.exercise
    with random_state_kept():
        for run in bench.runs:
            seen = observe(exercise, function, run.inputs, run.weights, exercise.time_limit_s)
            if find_problem(exercise, seen, run.answers, run.gradients, run.dtype) is not None:
                return False
    return True


def variants(bench: Bench) -> Iterator[Variant]:
    """All spoilt references of an exercise that can be made of its inputs and outputs."""
    exercise = bench.exercise
    if any(output.kind in ("float", "number") for output in exercise.outputs):
        for limit in LIMITS:
            yield Variant(f"result clamped to ±{limit:g}", _after(exercise, _clamp(limit)))
        floor = _after(exercise, lambda x: x.clamp(min=FLOOR))
        yield Variant(f"result at least {FLOOR:g}", floor)
    if exercise.call is not call_with_inputs:
        return  # what such a function is handed are policies and environments
    names = [name for name in bench.runs[0].inputs if name not in exercise.hidden]
    for place, name in enumerate(names):
        values = [run.inputs[name] for run in bench.runs]
        if _holds(values, lambda tensor: tensor.is_floating_point()):
            for limit in (*LIMITS, _twice_the_drawn(bench, name)):
                label = f"`{name}` clamped to ±{limit:g}"
                yield Variant(label, _before(exercise, place, _clamp(limit)))
        if _holds(values, lambda tensor: tensor.dtype == torch.bool and tensor.dim() == 2):
            yield Variant(f"first n in place of `{name}`", _before(exercise, place, first_n))


def first_n(mask: Tensor) -> Tensor:
    """A mask of the same counts without holes: the first n places of each row."""
    if mask.dtype != torch.bool or mask.dim() != 2:
        return mask
    places = torch.arange(mask.shape[1], device=mask.device)
    return places[None, :] < mask.sum(dim=1)[:, None]


def _holds(values: list[Any], wanted: Callable[[Tensor], bool]) -> bool:
    return any(wanted(tensor) for value in values for tensor in tensors_in(value))


def _twice_the_drawn(bench: Bench, name: str) -> float:
    """Twice the largest finite number of an input among the drawn cases; wide ones do not count."""
    tensors = [
        t for run in bench.drawn if not run.case.is_wide for t in tensors_in(run.inputs[name])
    ]
    numbers = [t[t.isfinite()].abs() for t in tensors if t.is_floating_point()]
    return 2.0 * max((float(n.max()) for n in numbers if n.numel()), default=1.0)


def _clamp(limit: float) -> Change:
    return lambda tensor: tensor.clamp(-limit, limit)


def _on_floats(change: Change, value: Any) -> Any:
    def changed(tensor: Tensor) -> Tensor:
        return change(tensor) if tensor.is_floating_point() or change is first_n else tensor

    if isinstance(value, float):
        return float(change(torch.tensor(value, dtype=torch.float64)))
    return map_tensors(changed, value)


def _after(exercise: Exercise, change: Change) -> Callable[..., Any]:
    def function(*inputs: Any, **options: Any) -> Any:
        return _on_floats(change, exercise.reference(*inputs, **options))

    return function


def _before(exercise: Exercise, place: int, change: Change) -> Callable[..., Any]:
    def function(*inputs: Any) -> Any:
        spoilt = _on_floats(change, inputs[place])
        return exercise.reference(*inputs[:place], spoilt, *inputs[place + 1 :])

    return function
