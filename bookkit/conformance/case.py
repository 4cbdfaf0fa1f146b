"""A case is data: a call, and what each outcome of it means."""

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["right", "convention", "wrong"]
Measure = Literal["value", "gradient", "expected gradient", "sum of parts"]

RAISES = "raises"


@dataclass(frozen=True)
class Outcome:
    """One value that the call may give. `RAISES` stands for a ValueError."""

    value: Any
    meaning: str
    verdict: Verdict


def right(value: Any, meaning: str = "right") -> Outcome:
    """The value that is right."""
    return Outcome(value, meaning, "right")


def wrong(value: Any, meaning: str) -> Outcome:
    """The fingerprint of a known fault."""
    return Outcome(value, meaning, "wrong")


def way(value: Any, meaning: str) -> Outcome:
    """A convention: neither right nor wrong, but it must be known."""
    return Outcome(value, meaning, "convention")


@dataclass(frozen=True)
class Case:
    """One question to a library.

    Attributes:
        id: short and stable.
        title: the question.
        source: the threads or the paper it comes from.
        function: the method of `Adapter` that is called.
        inputs: its arguments as plain numbers and lists; lists become tensors.
        outcomes: the known answers.
        measure: "value"; "gradient" of the sum of the result in the argument `of`; "expected
            gradient", where `theta` and `ref` are logits of a small vocabulary and the result is
            the gradient in theta of the mean over actions drawn from softmax(theta); "sum of
            parts", where the rows are handed over in `parts` with the counts of the whole.
        of: the argument that "gradient" is taken in.
        at: indices of the elements that are judged; None judges all of them.
        dtype: of the floating-point tensors.
        tolerance: absolute.
        relative: added to it, times the size of the outcome.
    """

    id: str
    title: str
    source: str
    function: str
    inputs: dict[str, Any]
    outcomes: tuple[Outcome, ...]
    measure: Measure = "value"
    of: str = "logp"
    parts: tuple[int, ...] = ()
    at: tuple[int, ...] | None = None
    dtype: str = "float64"
    tolerance: float = 1e-6
    relative: float = 0.0
    integers: tuple[str, ...] = field(default=("tokens", "ids", "chosen_tokens", "rejected_tokens"))
