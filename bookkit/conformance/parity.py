"""Ours against a library's own functions, on random tensors, under the arguments that match it.

A row says which of our arguments reproduce which function of which library, and how far apart the
values and the gradients are. Where no argument does, the row carries the reason; a difference
without a reason is a failure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.matches import MATCHES, Differs, Match
from bookkit.conformance.questions import QUESTIONS, Question

# Float64 rounding needs no words. Up to the tolerance a note must say what the library rounds.
ROUNDING = 1e-12
TOLERANCE = 2e-6


@dataclass(frozen=True)
class Row:
    """One comparison. status: "agrees" | "differs" | "not provided" | "unexplained" | "stale"."""

    library: str
    question: str
    theirs: str
    ours: str
    status: str
    reason: str | None = None
    value_difference: float | None = None
    gradient_difference: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the row needs somebody: a difference, or an agreement, that nobody expected."""
        return self.status in ("unexplained", "stale")


def compare(adapter: Adapter, seed: int = 0) -> list[Row]:
    """All rows of one library.

    Args:
        adapter: of the library; one without an entry in `MATCHES` is compared with our defaults.
        seed: of the random tensors.

    Returns:
        One row a question, the unanswered ones included.
    """
    return [compare_one(adapter, question, seed) for question in QUESTIONS]


def compare_one(adapter: Adapter, question: Question, seed: int = 0) -> Row:
    """One row: value, and gradient where the question has one."""
    match = MATCHES.get(adapter.name, {}).get(question.key, question.default)
    theirs = adapter.sources.get(question.function, question.function)
    ours_text = match.text or question.default.text
    inputs = question.inputs(torch.Generator().manual_seed(seed))
    try:
        their_result = _evaluate(getattr(adapter, question.function), inputs, question)
    except NotProvided as missing:
        return Row(adapter.name, question.key, theirs, "", "not provided", str(missing))
    our_result = _evaluate(_bound(match, question), inputs, question)
    differences = [
        float((a - b).abs().max())
        for a, b in zip(_judged(our_result, inputs), _judged(their_result, inputs), strict=True)
    ]
    largest = max(differences)
    status, said = _verdict(largest, match)
    return Row(
        adapter.name,
        question.key,
        theirs,
        ours_text,
        status,
        said,
        differences[0],
        differences[1] if len(differences) > 1 else None,
    )


def _verdict(largest: float, match: Match) -> tuple[str, str | None]:
    """Status and reason. NaN is never within a tolerance."""
    if isinstance(match, Differs):
        return ("stale" if largest <= TOLERANCE else "differs"), match.reason
    if largest <= ROUNDING:
        return "agrees", None
    if largest <= TOLERANCE and match.note:
        return "agrees", match.note
    return "unexplained", None


def _bound(match: Match, question: Question) -> Callable[..., Tensor]:
    call = match.call or question.default.call
    assert call is not None
    return call


def _evaluate(
    call: Callable[..., Tensor], inputs: dict[str, Any], question: Question
) -> list[Tensor]:
    """The value, and the gradient of a fixed random functional of it."""
    arguments = dict(inputs)
    if question.gradient_of is None:
        return [call(**arguments).detach().double()]
    leaf = arguments[question.gradient_of].clone().requires_grad_()
    arguments[question.gradient_of] = leaf
    value = call(**arguments)
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    if "mask" in inputs and inputs["mask"].shape == value.shape:
        weights = weights * inputs["mask"]
    (slope,) = torch.autograd.grad((value * weights).sum(), leaf)
    return [value.detach().double(), slope.double()]


def _judged(results: list[Tensor], inputs: dict[str, Any]) -> list[Tensor]:
    """What stands under a 0 is nobody's business: libraries leave different things there."""
    mask = inputs.get("mask")
    return [x[mask.bool()] if mask is not None and x.shape == mask.shape else x for x in results]
