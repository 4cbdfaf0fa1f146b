"""Rewards from an exact verifier to a model as judge: cost, signal, and how each is hacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bookkit.site.pictures.svg import arrow, dot, drawing, line, words
from nbkit.runs.results import read_result

FIGURE_WIDTH = 360.0
SIZE = 11.5
SPEED = "benchmarks/results/rewards.json"
LEFT, RIGHT, BLOCK = 14.0, 352.0, 64.0
SCALE = (17.0, 69.0)  # where 0 and 1 stand in a row
TAGS, TESTS = 4, 4  # quarters of the form; the tests of chapter 23's `add`


@dataclass(frozen=True)
class Kind:
    """A kind of reward: what one score costs, the values it takes, how it is hacked.

    Attributes:
        values: from 0 to 1; none: any number.
        every: whether all numbers between the first and the last value occur.

    """

    name: str
    tone: str
    cost: str
    values: Sequence[float]
    every: bool
    signal: str
    hack: str


def a_second(name: str) -> str:
    """The recorded speed of a verifier, to two digits."""
    found = read_result(SPEED)["rewards"][name]["per_second_median_least_most"][0]
    return f"{float(f'{found:.2g}'):,.0f}"


def kinds() -> list[Kind]:
    """Those that chapters 21 and 23 build, and the one that chapter 23 only cites, the last."""
    numbers, formulas = a_second("numeric answers"), a_second("symbolic answers")
    tests = a_second("HumanEval solutions with tests")
    quarters = [number / TESTS for number in range(TESTS + 1)]
    form = [number / TAGS for number in range(TAGS + 1)]
    return [
        Kind(
            "exact verifier",
            "build",
            f"numbers {numbers}, formulas {formulas} a second",
            (0, 1),
            False,
            "right or wrong",
            "58+77, where an equal answer is enough",
        ),
        Kind(
            "unit tests",
            "build",
            f"{tests} programs a second",
            quarters,
            False,
            "all tests, or the share that passes",
            "a program that ends its grader with success",
        ),
        Kind(
            "format reward",
            "scale",
            "a search in the text",
            form,
            False,
            "the whole form, or a part for each tag",
            "four tags with nothing in them",
        ),
        Kind(
            "heuristics: nearness, length",
            "scale",
            "a formula on the text",
            (0, 1),
            True,
            "some reward for nearly every answer",
            "longer texts that are right no more often",
        ),
        Kind(
            "learned reward model",
            "break",
            "one forward pass",
            (),
            True,
            "a score for every answer",
            "repeated words; the true reward falls",
        ),
        Kind(
            "a model as judge",
            "break",
            "a verdict is generated",
            (0, 1),
            False,
            "which of two answers is better",
            "the longer answer, the one shown first",
        ),
    ]


def reward_spectrum() -> str:
    """A block for each kind: name and cost, the values that it takes, the hack."""
    shapes = []
    y = 14.0
    for kind in kinds():
        shapes += [
            line([(4, y - 9), (4, y + 40)], kind.tone, 3),
            words(LEFT, y, kind.name, kind.tone, 12.5, "start", 650),
            words(RIGHT, y, kind.cost, size=SIZE, anchor="end"),
            *_values(kind, y + 15),
            words(LEFT + 68, y + 19, kind.signal, size=SIZE, anchor="start"),
            words(LEFT, y + 38, f"hack: {kind.hack}", size=SIZE, anchor="start"),
        ]
        y += BLOCK
    return drawing(*shapes, width=FIGURE_WIDTH, height=y - 18)


def _values(kind: Kind, y: float) -> list[str]:
    """A small axis: dots for single values, a thick line for all between, arrows for any number."""
    low, high = SCALE
    shapes = [line([(low, y), (high, y)], "muted", 1.2)]
    if not kind.values:
        middle = (low + high) / 2
        return [arrow((middle, y), (end, y), kind.tone, 2.4) for end in (low - 3, high + 3)]
    if kind.every:
        shapes.append(line([(low, y), (high, y)], kind.tone, 4))
    else:
        shapes += [dot(low + (high - low) * value, y, kind.tone, 3.6) for value in kind.values]
    return shapes
