"""Run a function on a case and note all that it did."""

import contextlib
import copy
import io
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbkit.exercises.limits import TimeLimitReached, time_limit
from nbkit.exercises.registry import Case, Exercise

PRINTED_CHARACTERS = 2000


@dataclass
class Observation:
    """What a function did with one case in one precision.

    ``leaves`` are its results, or None where it raised; ``gradients`` holds, for each watched
    input, the gradient that reached it, None where no path leads to it; ``changed`` names the
    inputs that were written to.
    """

    leaves: tuple[Any, ...] | None = None
    changed: tuple[str, ...] = ()
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    error: BaseException | None = None
    error_in_gradient_run: bool = False
    error_lines: traceback.StackSummary | None = None
    printed: str = ""
    seconds: float = 0.0


def cast(inputs: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Fresh copies of the inputs, with floating tensors in the given precision."""
    return {name: _cast_one(value, dtype) for name, value in inputs.items()}


def _cast_one(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone().to(dtype if value.is_floating_point() else value.dtype)
    return copy.deepcopy(value)


def observe(
    exercise: Exercise,
    function: Callable[..., Any],
    case: Case,
    dtype: torch.dtype,
    weights: list[Tensor | None] | None = None,
    seconds: float = 10.0,
) -> Observation:
    """Call the function on copies of the case's inputs.

    Args:
        exercise: says how the function is called and which gradients are watched.
        function: the learner's, the reference or a mutant.
        case: the question.
        dtype: precision of the floating inputs.
        weights: one cotangent per float output; None skips the gradient run.
        seconds: time limit of the call.
    """
    seen = Observation()
    started = time.perf_counter()
    text = io.StringIO()
    try:
        with time_limit(seconds), _quiet(text):
            _plain_run(exercise, function, case, dtype, seen)
            seen.printed = text.getvalue()
            if weights is not None and not seen.changed:
                seen.error_in_gradient_run = True
                _gradient_run(exercise, function, case, dtype, weights, seen)
                seen.error_in_gradient_run = False
    except (Exception, TimeLimitReached) as error:
        seen.error = error
        seen.error_lines = traceback.extract_tb(error.__traceback__)
        seen.leaves = None if not seen.error_in_gradient_run else seen.leaves
    seen.printed = (seen.printed or text.getvalue())[:PRINTED_CHARACTERS]
    seen.seconds = time.perf_counter() - started
    return seen


@contextlib.contextmanager
def _quiet(text: io.StringIO) -> Iterator[None]:
    """Capture printing, and leave random state and gradient mode as they were."""
    # The CPU generator itself: torch.manual_seed also reaches for every accelerator, slowly.
    states = random.getstate(), torch.default_generator.get_state()
    with contextlib.redirect_stdout(text), torch.enable_grad():
        try:
            torch.default_generator.manual_seed(0)
            random.seed(0)
            yield
        finally:
            random.setstate(states[0])
            torch.default_generator.set_state(states[1])


def _call(exercise: Exercise, function: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    visible = {name: value for name, value in inputs.items() if name not in exercise.hidden}
    return exercise.call(function, **visible)


def _split(exercise: Exercise, result: Any) -> tuple[Any, ...]:
    if len(exercise.outputs) == 1:
        return (result,)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _plain_run(
    exercise: Exercise,
    function: Callable[..., Any],
    case: Case,
    dtype: torch.dtype,
    seen: Observation,
) -> None:
    inputs = cast(case.inputs, dtype)
    before = cast(case.inputs, dtype)
    leaves = _split(exercise, _call(exercise, function, inputs))
    seen.changed = tuple(name for name in inputs if not _unchanged(before[name], inputs[name]))
    seen.leaves = tuple(v.detach().clone() if isinstance(v, Tensor) else v for v in leaves)


def _unchanged(before: Any, after: Any) -> bool:
    if isinstance(before, Tensor):
        if before.shape != after.shape or before.requires_grad != after.requires_grad:
            return False
        if before.is_floating_point():
            same = (before == after) | (before.isnan() & after.isnan())
            return bool(same.all())
        return torch.equal(before, after)
    return bool(before == after) if isinstance(before, (list, dict, tuple, set)) else True


def _gradient_run(
    exercise: Exercise,
    function: Callable[..., Any],
    case: Case,
    dtype: torch.dtype,
    weights: list[Tensor | None],
    seen: Observation,
) -> None:
    inputs = cast(case.inputs, dtype)
    watched = exercise.gradient_to + exercise.no_gradient_to
    for name in watched:
        inputs[name].requires_grad_(True)
    leaves = _split(exercise, _call(exercise, function, inputs))
    total = None
    for leaf, weight in zip(leaves, weights, strict=False):
        if weight is None or not isinstance(leaf, Tensor) or not leaf.requires_grad:
            continue
        if leaf.shape != weight.shape:
            return
        part = (leaf * weight.to(leaf.dtype)).sum()
        total = part if total is None else total + part
    if total is None:
        seen.gradients = dict.fromkeys(watched)
        return
    grads = torch.autograd.grad(total, [inputs[name] for name in watched], allow_unused=True)
    seen.gradients = dict(zip(watched, grads, strict=True))
