"""Hold what a function did against what it should have done."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bookkit.exercises.exercise import Exercise, Output
from bookkit.exercises.observe import Observation
from bookkit.exercises.tree import as_lists, same

GRADIENT_RTOL, GRADIENT_ATOL = 1e-4, 1e-6
ProblemKind = Literal["error", "type", "shape", "value", "changed", "dtype", "gradient"]
NOTHING = "the function returned None (is the `return` missing?)"
RANK = {"error": 0, "type": 0, "shape": 0, "value": 0, "changed": 1, "dtype": 2, "gradient": 3}


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong with one observation.

    ``expected`` and ``got`` are the two sides of what is wrong, where that is a value or gradient.
    """

    kind: ProblemKind
    where: str
    sentence: str
    expected: Any = None
    got: Any = None

    @property
    def rank(self) -> int:
        """Order of reporting: values before side effects, those before dtypes and gradients."""
        return RANK[self.kind]


def find_problem(
    exercise: Exercise,
    seen: Observation,
    answers: tuple[Any, ...],
    gradients: dict[str, Tensor],
    dtype: torch.dtype,
) -> Problem | None:
    """The most basic problem of an observation, or None if it is right."""
    if seen.error is not None and not seen.error_in_gradient_run:
        what = f"raised {type(seen.error).__name__}: {seen.error}"
        if seen.returned_none:
            return Problem("error", "", f"{NOTHING}, and what calls it {what}")
        return Problem("error", "", f"it {what}")
    leaves = seen.leaves or ()
    if len(leaves) != len(exercise.outputs):
        wanted = ", ".join(f"{o.name} {o.shape}" for o in exercise.outputs)
        sentence = f"it must return {len(exercise.outputs)} results ({wanted}), "
        sentence += _not(None) if leaves in ((), (None,)) else f"not {len(leaves)}"
        return Problem("type", "", sentence)
    problems = [
        problem
        for output, leaf, answer in zip(exercise.outputs, leaves, answers, strict=True)
        if (problem := leaf_problem(output, leaf, answer, dtype)) is not None
    ]
    if problems and min(p.rank for p in problems) == 0:
        return min(problems, key=lambda p: p.rank)
    if seen.changed:
        names = " and ".join(f"`{name}`" for name in seen.changed)
        sentence = (
            f"it changed its input {names} in place: the caller's tensor is no longer what it was. "
            "Work on a copy (clone) or use an operation that makes a new tensor"
        )
        return Problem("changed", names, sentence)
    if problems:
        return problems[0]
    if seen.error_in_gradient_run:
        sentence = (
            "it works on plain tensors, but with inputs that require gradients it raised "
            f"{type(seen.error).__name__}: {seen.error}"
        )
        return Problem("error", "", sentence)
    return _gradient_problem(exercise, seen, gradients)


def leaf_problem(output: Output, leaf: Any, answer: Any, dtype: torch.dtype) -> Problem | None:
    """What is wrong with one result, or None."""
    name = output.name
    if output.kind == "python":
        if leaf is None and answer is not None and not output.may_be_none:
            sentence = f"`{name}` must be {output.shape}, {_not(leaf)}"
            return Problem("type", name, sentence, answer, leaf)
        if not same(as_lists(leaf), as_lists(answer)):
            return Problem("value", name, f"`{name}` differs", answer, leaf)
        return None
    if output.kind == "number":
        return _number_problem(output, leaf, answer)
    if not isinstance(leaf, Tensor):
        return Problem(
            "type", name, f"`{name}` must be a torch tensor {output.shape}, {_not(leaf)}"
        )
    if leaf.device != answer.device:
        sentence = f"`{name}` is on {leaf.device}, the inputs are on {answer.device}"
        return Problem("type", name, sentence)
    if leaf.shape != answer.shape:
        sentence = (
            f"`{name}` has shape {tuple(leaf.shape)}; {output.shape} is {tuple(answer.shape)} here"
        )
        return Problem("shape", name, sentence, answer, leaf)
    wanted = {"float": dtype, "bool": torch.bool, "int": torch.int64}[output.kind]
    if output.kind != "float" and not torch.equal(leaf.to(torch.float64), answer.double()):
        return Problem("value", name, f"`{name}` differs", answer, leaf)
    if output.kind == "float" and not _close(leaf, answer, output.rtol, output.atol):
        return Problem("value", name, f"`{name}` differs", answer, leaf)
    if leaf.dtype != wanted:
        return Problem("dtype", name, _dtype_sentence(output, leaf.dtype, wanted))
    return None


def _not(leaf: Any) -> str:
    if leaf is None:
        return f"but {NOTHING}"
    kind = type(leaf)
    hint = ""
    if kind is float or kind is int:
        hint = " (.item() and float() also cut the gradient)"
    return (
        f"not a {'' if kind.__module__ == 'builtins' else kind.__module__ + '.'}{kind.__name__}"
        + hint
    )


def _dtype_sentence(output: Output, got: torch.dtype, wanted: torch.dtype) -> str:
    got_name, wanted_name = str(got).removeprefix("torch."), str(wanted).removeprefix("torch.")
    if output.kind != "float":
        return (
            f"`{output.name}` must have dtype {wanted_name}, not {got_name}; its values are right"
        )
    return (
        f"`{output.name}` is {got_name} although the inputs are {wanted_name}: something fixes the "
        "precision (a torch.zeros without dtype=, a .float(), a float mask)"
    )


def _number_problem(output: Output, leaf: Any, answer: float) -> Problem | None:
    if isinstance(leaf, bool) or not isinstance(leaf, (int, float)):
        sentence = f"`{output.name}` must be a Python float, {_not(leaf)}"
        return Problem("type", output.name, sentence)
    if abs(leaf - answer) <= output.atol + output.rtol * abs(answer):
        return None
    sentence = f"`{output.name}` differs"
    if isinstance(leaf, int) and leaf in (0, 1):
        sentence += ", and it is a whole number: // instead of /?"
    return Problem("value", output.name, sentence, answer, leaf)


def _close(got: Tensor, expected: Tensor, rtol: float, atol: float) -> bool:
    if got.is_complex():
        return False
    return torch.allclose(got.double(), expected.double(), rtol=rtol, atol=atol)


def _gradient_problem(
    exercise: Exercise, seen: Observation, gradients: dict[str, Tensor]
) -> Problem | None:
    if not seen.gradients:
        return None
    for name, expected in gradients.items():
        got = seen.gradients.get(name)
        if got is None and not expected.any() and not exercise.connected:
            continue
        if got is None:
            sentence = (
                f"the values are right, but no gradient reaches `{name}`: a .detach(), .item(), "
                ".data, no_grad or a rebuilt tensor cuts the path"
            )
            return Problem("gradient", name, sentence, expected, None)
        if not torch.allclose(got.double(), expected, rtol=GRADIENT_RTOL, atol=GRADIENT_ATOL):
            sentence = f"the values are right, but the gradient that reaches `{name}` differs"
            return Problem("gradient", name, sentence, expected, got)
    for name in exercise.no_gradient_to:
        got = seen.gradients.get(name)
        if got is not None and bool((got != 0).any()):
            sentence = (
                f"the values are right, but a gradient reaches `{name}`, which must act as a "
                "constant: detach it"
            )
            return Problem("gradient", name, sentence, torch.zeros_like(got), got)
    return None


def same_behaviour(exercise: Exercise, one: Observation, other: Observation) -> bool:
    """Whether two functions did the same with the same case, gradients and errors included."""
    if (one.error is None) != (other.error is None):
        return False
    if one.error is not None and other.error is not None:
        same_type = type(one.error) is type(other.error)
        return same_type and str(one.error) == str(other.error)
    if one.changed != other.changed or len(one.leaves or ()) != len(other.leaves or ()):
        return False
    pairs = zip(exercise.outputs, one.leaves or (), other.leaves or (), strict=False)
    if not all(same_leaf(output, a, b) for output, a, b in pairs):
        return False
    return all(
        _same_gradient(one.gradients.get(name), other.gradients.get(name))
        for name in exercise.gradient_to + exercise.no_gradient_to
    )


def same_leaf(output: Output, a: Any, b: Any) -> bool:
    """Whether two results are the same, nan included."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
            return False
        if output.kind in ("bool", "int"):
            return torch.equal(a, b)
        return torch.equal(a, b) or torch.allclose(
            a.double(), b.double(), rtol=output.rtol, atol=output.atol, equal_nan=True
        )
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        both_nan = a != a and b != b
        return a == b or both_nan or abs(a - b) <= output.atol + output.rtol * abs(b)
    return same(as_lists(a), as_lists(b))


def _same_gradient(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        given = a if a is not None else b
        return given is None or not bool(given.any())
    return torch.allclose(a, b, rtol=GRADIENT_RTOL, atol=GRADIENT_ATOL, equal_nan=True)
