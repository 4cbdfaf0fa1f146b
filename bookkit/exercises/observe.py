"""Run a function on a case and note all that it did."""

import contextlib
import copy
import functools
import io
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed.tensor
from torch import Tensor

from bookkit.exercises.limits import TimeLimitReached, time_limit
from bookkit.exercises.tree import map_tensors, same, tensors_in

# torch imports `torch.distributed.tensor` at the first `assert_close`. A time limit that broke this
# off would leave half of sympy behind, in the reader's kernel; so it is imported before any limit.
PRINTED_CHARACTERS = 2000


class Asks(Protocol):
    """What must be known of an exercise to call a function as it says."""

    @property
    def call(self) -> Callable[..., Any]:
        """How the inputs become a call."""

    @property
    def outputs(self) -> Sized:
        """The results, one entry each."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Inputs that are not handed over."""

    @property
    def gradient_to(self) -> tuple[str, ...]:
        """Inputs whose gradient is noted."""

    @property
    def no_gradient_to(self) -> tuple[str, ...]:
        """Inputs whose gradient is noted and must be none."""


@dataclass
class Observation:
    """What a function did with one case in one precision.

    ``leaves`` are its results, or None where it raised; ``gradients`` holds, for each watched
    input, the gradient that reached it, None where no path leads to it; ``changed`` names the
    inputs that were written to. ``returned_none`` says whether its last call gave None: what calls
    it may then stumble over that, and not the function itself.
    """

    leaves: tuple[Any, ...] | None = None
    changed: tuple[str, ...] = ()
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    error: BaseException | None = None
    error_in_gradient_run: bool = False
    error_lines: traceback.StackSummary | None = None
    printed: str = ""
    returned_none: bool = False


def cast(inputs: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Fresh copies of the inputs, with floating tensors in the given precision."""

    def in_precision(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return {name: map_tensors(in_precision, value) for name, value in copies(inputs).items()}


def copies(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the inputs that a function may spoil."""
    return {
        name: map_tensors(torch.clone, value) if tensors_in(value) else copy.deepcopy(value)
        for name, value in inputs.items()
    }


def observe(
    exercise: Asks,
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    weights: list[Tensor | None] | None = None,
    seconds: float = 10.0,
) -> Observation:
    """Call the function on copies of the inputs.

    Args:
        exercise: says how the function is called and which gradients are watched.
        function: the learner's, the reference or a mutant.
        inputs: the case's inputs in the precision of the run.
        weights: one cotangent per float output; None skips the gradient run.
        seconds: of processor time that the call may use.
    """
    seen = Observation()

    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        seen.returned_none = False
        result = function(*args, **options)
        seen.returned_none = result is None
        return result

    text = io.StringIO()
    try:
        with time_limit(seconds), contextlib.redirect_stdout(text), torch.enable_grad():
            _plain_run(exercise, noted, inputs, seen)
            seen.printed = text.getvalue()
            if weights is not None and not seen.changed:
                seen.error_in_gradient_run = True
                _gradient_run(exercise, noted, inputs, weights, seen)
                seen.error_in_gradient_run = False
    except (Exception, SystemExit, TimeLimitReached) as error:
        seen.error = error
        seen.error_lines = traceback.extract_tb(error.__traceback__)
        seen.leaves = None if not seen.error_in_gradient_run else seen.leaves
    seen.printed = (seen.printed or text.getvalue())[:PRINTED_CHARACTERS]
    return seen


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the random state of Python and torch as it was."""
    states = random.getstate(), torch.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        torch.default_generator.set_state(states[1])


def _call(exercise: Asks, function: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    torch.default_generator.manual_seed(0)  # not torch.manual_seed, which reaches for all devices
    random.seed(0)
    visible = {name: value for name, value in inputs.items() if name not in exercise.hidden}
    return exercise.call(function, **visible)


def _split(exercise: Asks, result: Any) -> tuple[Any, ...]:
    if len(exercise.outputs) == 1:
        return (result,)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _plain_run(
    exercise: Asks,
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    seen: Observation,
) -> None:
    given = copies(inputs)
    leaves = _split(exercise, _call(exercise, function, given))
    seen.changed = tuple(name for name in inputs if not same(inputs[name], given[name]))
    seen.leaves = tuple(v.detach().clone() if isinstance(v, Tensor) else v for v in leaves)


def _gradient_run(
    exercise: Asks,
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    weights: list[Tensor | None],
    seen: Observation,
) -> None:
    given = copies(inputs)
    watched = exercise.gradient_to + exercise.no_gradient_to
    for name in watched:
        given[name].requires_grad_(True)
    leaves = _split(exercise, _call(exercise, function, given))
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
    grads = torch.autograd.grad(total, [given[name] for name in watched], allow_unused=True)
    seen.gradients = dict(zip(watched, grads, strict=True))
