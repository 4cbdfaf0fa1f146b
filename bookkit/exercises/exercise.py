"""What an exercise is: what its check states, and what its solution page adds to that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bookkit.exercises.draw import Draw

Kind = Literal["float", "bool", "int", "number", "python"]


@dataclass(frozen=True)
class Case:
    """One question put to a learner's function.

    ``inputs`` maps argument names, in calling order, to values. Floating tensors are given in
    float64; the check casts them to the precision that it tests. ``gradient=False`` skips the
    gradient test (at a kink, or where the input is too large for finite differences). ``is_wide``:
    made of another case by `wide_cases` or `special_cases`; it is asked in float64 alone.
    """

    name: str
    inputs: Mapping[str, Any]
    gradient: bool = True
    is_wide: bool = False

    @property
    def size(self) -> int:
        """Number of elements in all inputs: the measure by which the smallest case is chosen."""
        return sum(_count(value) for value in self.inputs.values())


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_count(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_count(item) for item in value)
    return int(value.numel()) if hasattr(value, "numel") else 1


@dataclass(frozen=True)
class Output:
    """One result of the learner's function and how it is compared.

    kind "float" is a tensor in the precision of the inputs, "bool" and "int" are tensors compared
    exactly, "number" is a Python float, "python" is anything compared with ``==``, a list being as
    good as a tuple. `may_be_none`: None is an answer that some cases have.
    """

    name: str
    shape: str
    kind: Kind = "float"
    rtol: float = 1e-4
    atol: float = 1e-5
    may_be_none: bool = False


@dataclass(frozen=True)
class Mutant:
    """A wrong solution that people really write, and the sentence that must meet it."""

    name: str
    function: Callable[..., Any]
    message: str


@dataclass(frozen=True)
class Edit:
    """A mutant that is written as edits of the solution: each ``old`` becomes its ``new``."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    message: str


def edit(name: str, old: str, new: str, message: str) -> Edit:
    """A mutant that is the solution's cell with one piece of its text replaced.

    Args:
        name: of the mutant.
        old: stands exactly once in the cell.
        new: what stands there instead.
        message: the sentence that must meet it.
    """
    return Edit(name, ((old, new),), message)


def edits(name: str, *pairs: tuple[str, str], message: str) -> Edit:
    """A mutant that takes several replacements ``(old, new)``, made one after the other."""
    return Edit(name, pairs, message)


def call_with_inputs(function: Callable[..., Any], **inputs: Any) -> Any:
    """The default way to call a learner's function: the inputs by position, in their order."""
    return function(*inputs.values())


@dataclass(frozen=True, kw_only=True)
class Check:
    """What proves an exercise. The rest of it stands on its solution page.

    Attributes:
        id: stable name, ``topic.exercise.number``.
        outputs: the results in order; one entry means that the bare value is returned.
        cases: draws one fresh case; ``draw.size`` grows from 1 to 6 within a check.
        edges: the fixed cases that must never break.
        oracle: the independent answer. It receives plain Python lists and floats, so it cannot
            lean on vectorised code, and returns the same.
        mutants: wrong solutions with the message that each must meet.
        not_tested: one sentence saying what a pass does not prove.
        gradient_to: inputs that the gradient must reach; compared with finite differences of the
            oracle. A stop-gradient is expressed by a second, frozen input that the oracle uses.
        no_gradient_to: inputs that the gradient must not reach.
        call: how the inputs become a call, for functions that take policies or environments.
        hidden: inputs that are only for the oracle (frozen copies) and are not shown.
        time_limit_s: processor seconds that all calls of one check may take together, with those
            of the processes that they start.
        draws: how many fresh cases a check draws.
        precision: of the answers: that of the inputs, or bfloat16 whatever the inputs have, and
            then no answer agrees with the oracle to more digits than bfloat16 keeps.
        wide: inputs of which one entry may be far from the others; see `wide_cases`.
        holed: masks that may have holes anywhere.
        connected: whether a gradient must reach the inputs of ``gradient_to`` even where it is 0,
            because the caller's backward pass needs the path.
        special: inputs with a value at which a shortcut is tempting; see `special_cases`.
    """

    id: str
    outputs: tuple[Output, ...]
    cases: Callable[[Draw], Case]
    edges: Callable[[], tuple[Case, ...]]
    oracle: Callable[..., Any]
    mutants: tuple[Edit | Mutant, ...]
    not_tested: str
    gradient_to: tuple[str, ...] = ()
    no_gradient_to: tuple[str, ...] = ()
    call: Callable[..., Any] = call_with_inputs
    hidden: tuple[str, ...] = ()
    time_limit_s: float = 10.0
    draws: int = 24
    precision: Literal["input", "bfloat16"] = "input"
    wide: tuple[str, ...] = ()
    holed: tuple[str, ...] = ()
    connected: bool = False
    special: tuple[tuple[str, float | bool], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exercise(Check):
    """A check with what its solution page says, and all mutants as functions.

    Attributes:
        title: one line.
        chapter: number in the file name of the chapter.
        difficulty: 1 (a line) to 5 (an evening).
        minutes: what a learner should plan.
        goal: what the function does, in one or two sentences.
        reference: the page's solution (it must pass; the tests prove it).
    """

    title: str
    chapter: int
    difficulty: int
    minutes: int
    goal: str
    reference: Callable[..., Any]
    mutants: tuple[Mutant, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.difficulty <= 5:
            raise ValueError(f"exercise {self.id}: difficulty {self.difficulty} is not in 1 to 5")
        if self.minutes < 1:
            raise ValueError(f"exercise {self.id}: minutes must be at least 1, not {self.minutes}")
        names = [mutant.name for mutant in self.mutants]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"exercise {self.id}: two mutants are called {twice[0]!r}")
