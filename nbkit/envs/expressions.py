"""Short Python functions from instructions, scored by unit tests in the sandbox.

An instruction names a start and one to three steps, ``larger;more3;abs:``, and the completion is
the body of a function of two whole numbers, one line each::

    z=max(x,y)
    z=z+3
    z=abs(z)
    return z

``program`` puts it below ``def f(x,y):``; the unit tests compare ``f`` with the task's own meaning
on pairs of numbers. Nothing looks at the text: another program that computes the same passes.

The corpus that teaches the language has **planted** faults, each a habit of real beginners: ``min``
for the larger of two, a true division where a whole one is meant, a sign that is lost, a step that
is left out. Each line goes wrong with a given chance. So most programs of a model that learned the
corpus well are nearly right, and the tests must say which.
"""

import ast
import operator
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from nbkit._inputs import check_choice, check_number
from nbkit.rewards.compose import Composed
from nbkit.rewards.pool import SandboxPool
from nbkit.text.piece_vocabulary import PieceVocabulary, longest_first


class Answered(Protocol):
    """What the reward reads of a completion; ``scoring.Completion`` has it."""

    @property
    def text(self) -> str:
        """Up to the EOS."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the limit ended it."""
        ...


Numbers = Callable[[int, int], int]
# name: what it computes of x and y; the line that does; the line of a beginner's habit
STARTS: dict[str, tuple[Numbers, str, str]] = {
    "larger": (max, "z=max(x,y)", "z=min(x,y)"),
    "smaller": (min, "z=min(x,y)", "z=max(x,y)"),
    "sum": (lambda x, y: x + y, "z=x+y", "z=x-y"),
    "less": (lambda x, y: x - y, "z=x-y", "z=y-x"),
    "product": (lambda x, y: x * y, "z=x*y", "z=x+y"),
}
# the same of z; an empty habit leaves the step out
STEPS: dict[str, tuple[Callable[[int], int], str, str]] = {
    "abs": (abs, "z=abs(z)", ""),
    "negate": (lambda z: -z, "z=-z", ""),
    "double": (lambda z: 2 * z, "z=2*z", "z=z*z"),
    "square": (lambda z: z * z, "z=z*z", "z=2*z"),
    "half": (lambda z: z // 2, "z=z//2", "z=z/2"),
    "digit": (lambda z: z % 10, "z=z%10", "z=z//10"),
    **{f"more{n}": (partial(operator.add, n), f"z=z+{n}", f"z=z-{n}") for n in (1, 2, 3, 4, 5)},
    **{f"cap{n}": (partial(min, n), f"z=min(z,{n})", f"z=max(z,{n})") for n in (2, 4, 6, 8)},
}
_CODE = ("z=", "x", "y", "z", "max(", "min(", "abs(", ",", ")", "+", "-", "*", "//", "/", "%")
_CODE += ("return z", "\n", *"123456789", "10")
_TOKENS = ("<pad>", "<eos>", *STARTS, *STEPS, ";", ":", *_CODE)
_PIECE = longest_first(_TOKENS)
TESTS = 8


class ExpressionVocabulary(PieceVocabulary):
    """Words of the instructions and pieces of Python; PAD 0, EOS 1 (BOS too)."""

    tokens = _TOKENS
    pattern = _PIECE


@dataclass(frozen=True)
class FunctionTask:
    """What is asked: a start (key of ``STARTS``) and steps (keys of ``STEPS``)."""

    start: str
    steps: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """What the model reads."""
        return ";".join((self.start, *self.steps)) + ":"

    def value(self, x: int, y: int) -> int:
        """What the function must return."""
        z = STARTS[self.start][0](x, y)
        for step in self.steps:
            z = STEPS[step][0](z)
        return z

    @cached_property
    def tests(self) -> str:
        """Assert statements on eight pairs, two of each choice of signs; the same always."""
        source = random.Random(self.prompt)
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)] * (TESTS // 4)
        pairs = [(a * source.randint(1, 20), b * source.randint(1, 20)) for a, b in signs]
        # == alone would let 3.0 pass for 3.
        lines = (f"assert repr(f({x}, {y})) == {str(self.value(x, y))!r}" for x, y in pairs)
        return "\n".join(lines)


def solution(task: FunctionTask, *, faults: Sequence[bool] | None = None) -> str:
    """Return the lines of a body; where a fault is set, the line is that of the habit.

    Args:
        task: what is asked.
        faults: one for the start and one for each step; None: none.

    """
    rows = [STARTS[task.start][1:], *(STEPS[step][1:] for step in task.steps)]
    chosen = [row[fault] for row, fault in zip(rows, faults or [False] * len(rows), strict=True)]
    return "\n".join([line for line in chosen if line] + ["return z"])


def program(body: str) -> str:
    """Return the source of ``f``; where the body is no Python, the sandbox will say so."""
    return "def f(x,y):\n" + "\n".join(" " + line for line in body.split("\n"))


def draw_tasks(
    count: int, *, seed: int, held_out: bool = False, steps: tuple[int, int] = (1, 3)
) -> list[FunctionTask]:
    """Draw distinct tasks of one side; one in ten is held out for ever, by a checksum.

    Args:
        count: how many.
        seed: of the draw.
        held_out: from the held-out tenth, else from the rest.
        steps: fewest and most steps.

    Raises:
        ValueError: steps outside 1 to 3, or more tasks than there are.

    """
    check_number("count", count, 1)
    low, high = steps
    if not 1 <= low <= high <= 3:
        raise ValueError(f"steps must be two numbers from 1 to 3, the smaller first; got {steps}")
    source = random.Random(seed)
    tasks: dict[FunctionTask, None] = {}
    for _ in range(200 * count):
        task = _draw(source, source.randint(low, high))
        if is_held_out(task) == held_out:
            tasks[task] = None
        if len(tasks) == count:
            return list(tasks)
    raise ValueError(f"count: there are no {count} distinct tasks of {steps} steps on this side")


def _draw(source: random.Random, steps: int) -> FunctionTask:
    return FunctionTask(source.choice(list(STARTS)), tuple(source.choices(list(STEPS), k=steps)))


def is_held_out(task: FunctionTask) -> bool:
    """Whether a task belongs to the held-out tenth."""
    return zlib.crc32(task.prompt.encode()) % 10 == 0


def code_corpus(
    count: int, *, seed: int, faulty: float = 0.4, steps: tuple[int, int] = (1, 3)
) -> list[tuple[FunctionTask, str]]:
    """Tasks of the training side with bodies; each line is a habit's with the chance `faulty`.

    Args:
        count: how many, repetitions allowed.
        seed: of tasks and faults.
        faulty: the planted chance a line.
        steps: fewest and most steps.

    """
    check_number("faulty", faulty, 0.0, 1.0)
    source = random.Random(f"habits {seed}")
    examples: list[tuple[FunctionTask, str]] = []
    while len(examples) < count:
        task = _draw(source, source.randint(*steps))
        if not is_held_out(task):
            faults = [source.random() < faulty for _ in range(1 + len(task.steps))]
            examples.append((task, solution(task, faults=faults)))
    return examples


class CodeRewards:
    """The reward function: unit tests in a pool of sandboxes, each distinct program once.

    A program is judged in its own sandbox, never together with another. What has been judged is
    remembered by program and tests: both are plain functions of their arguments in a sandbox
    without clock, network or files, so the verdict would be the same again. A program that does not
    even parse is 0 without a sandbox.

    Args:
        pool: of sandboxes.
        reward: "binary" (all tests or nothing) or "graded" (the share that passes).
        timeout_s: for a program and its tests.

    Attributes:
        judged: programs that went through a sandbox.
        asked: completions that were scored.

    """

    def __init__(
        self, pool: SandboxPool, *, reward: str = "binary", timeout_s: float = 5.0
    ) -> None:
        check_choice("reward", reward, ("binary", "graded"))
        self.pool, self.reward, self.timeout_s = pool, reward, timeout_s
        self.judged, self.asked = 0, 0
        self._known: dict[tuple[str, str], float] = {}

    def __call__(
        self, tasks: Sequence[FunctionTask], completions: Sequence[Answered]
    ) -> list[Composed]:
        """Return a reward for each completion; the parts "correct" and "share" are on record."""
        pairs = [(program(c.text), task.tests) for task, c in zip(tasks, completions, strict=True)]
        shares = self.shares(pairs)
        rewards = []
        for pair, completion in zip(pairs, completions, strict=True):
            share = 0.0 if completion.truncated else shares[pair]
            right = float(share == 1.0)
            total = share if self.reward == "graded" else right
            rewards.append(Composed(total, {"correct": right, "share": share}))
        self.asked += len(pairs)
        return rewards

    def shares(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """The share of the tests that each (program, tests) passes."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        parsed = [pair for pair in new if _parses(pair[0])]
        self._known.update(dict.fromkeys(new, 0.0))
        scores = self.pool.score(parsed, partial=True, timeout_s=self.timeout_s)
        self._known.update(zip(parsed, scores, strict=True))
        self.judged += len(parsed)
        return {pair: self._known[pair] for pair in pairs}


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
