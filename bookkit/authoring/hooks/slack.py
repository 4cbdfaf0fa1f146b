"""Takes notes of assertions: whether each held, and by how much its ordering comparisons hold.

The slack of `a < b` is how far it is from failing: b − a, positive while it holds; of tensors the
smallest element's counts. Run inside the kernel by its path, by `asserts.py`, which rewrites the
cells so that they call what stands here.
"""

import json
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ORDERINGS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Result:
    """What a part of a test came to: its value as the page sees it, and its slack if it has one.

    `low` and `high` are the smallest and the largest slack of the elements of a tensor; for
    numbers they are the same.
    """

    value: Any
    low: float | None = None
    high: float | None = None

    def __bool__(self) -> bool:
        return bool(self.value)


class Recorder:
    """Takes the notes of one kernel; the rewritten cells find it on `sys`."""

    def __init__(self, cell_number: Callable[[], int], rewrites: Callable[[], bool]) -> None:
        """Take what tells the notes where they are.

        Args:
            cell_number: says which code cell of the page runs now, counted from 1.
            rewrites: says whether cells are still rewritten.
        """
        self.cell_number, self.rewrites = cell_number, rewrites
        self.process = os.getpid()
        self.notes: dict[tuple[int, str], dict[str, Any]] = {}
        self.seen: Counter[tuple[int, str]] = Counter()
        self._guards = threading.local()

    def name(self, text: str) -> tuple[int, str]:
        """The cell and the text of an assertion, made unique within its cell."""
        key = (self.cell_number(), text)
        self.seen[key] += 1
        count = self.seen[key]
        return key if count == 1 else (key[0], f"{key[1]} ({count})")

    def note(self, cell: int, text: str, result: Any) -> bool:
        """Note one run of an assertion; True unless it failed where it must still raise."""
        return self.note_each(cell, (text, lambda: result))

    def note_each(self, cell: int, *parts: tuple[str, Callable[[], Any]]) -> bool:
        """Note one run of `assert a and b`: each part that runs, up to the first that fails."""
        silent = bool(getattr(self._guards, "depth", 0)) or os.getpid() != self.process
        for text, part in parts:
            result = part()
            held = bool(result)
            if not silent:
                self._keep(cell, text, held, result.low if isinstance(result, Result) else None)
            if not held:
                return not silent
        return True

    def _keep(self, cell: int, text: str, held: bool, slack: float | None) -> None:
        if slack is not None and not (slack >= 0 if held else slack <= 0):
            slack = None  # it holds, or fails, for another reason than an ordering
        note = self.notes.setdefault(
            (cell, text), {"cell": cell, "text": text, "slack": None, "holds": True}
        )
        note["slack"] = smallest([note["slack"], finite(slack)])
        note["holds"] = note["holds"] and held

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """While this is entered, assertions raise as ever and are not noted."""
        self._guards.depth = getattr(self._guards, "depth", 0) + 1
        try:
            yield
        finally:
            self._guards.depth -= 1

    def report_json(self) -> str:
        """Every assertion that ran, as JSON: `{"cell", "text", "slack" (or None), "holds"}` each.

        Raises:
            RuntimeError: IPython has dropped the rewriting after an error in it.
        """
        if not self.rewrites():
            raise RuntimeError("the rewriting of assertions failed in a cell; see its output")
        return json.dumps(list(self.notes.values()))

    @staticmethod
    def chain(left: Any, *rest: tuple[str, Callable[[], Any]]) -> Result:
        """Evaluate `left < right <= …`, each side once and no further than Python would."""
        lows, highs = [], []
        value: Any = True
        for operator, side in rest:
            right = side()
            value = _compare(left, operator, right)
            low, high = slack_of(left, operator, right)
            lows.append(low)
            highs.append(high)
            if len(rest) > 1 and not value:
                break
            left = right
        return Result(value, smallest(lows), smallest(highs))

    @staticmethod
    def both(*parts: Callable[[], Any]) -> Result:
        """Evaluate `a and b`."""
        results = []
        for part in parts:
            results.append(part())
            if not results[-1]:
                break
        return Result(_plain(results[-1]), smallest(_lows(results)), smallest(_highs(results)))

    @staticmethod
    def either(*parts: Callable[[], Any]) -> Result:
        """Evaluate `a or b`."""
        results = []
        for part in parts:
            results.append(part())
            if results[-1]:
                break
        return Result(_plain(results[-1]), largest(_lows(results)), largest(_highs(results)))

    @staticmethod
    def negated(result: Any) -> Result:
        """Evaluate `not a`."""
        if not isinstance(result, Result):
            return Result(not result)
        low = None if result.high is None else -result.high
        high = None if result.low is None else -result.low
        return Result(not result, low, high)

    @staticmethod
    def every(results: Iterable[Any]) -> Result:
        """Evaluate `all(…)`, on to the end, so that the smallest slack of all is known."""
        found = _exhausted(results, until=False)
        return Result(all(found), smallest(_lows(found)), smallest(_lows(found)))

    @staticmethod
    def some(results: Iterable[Any]) -> Result:
        """Evaluate `any(…)`, on to the end, so that the largest slack of all is known."""
        found = _exhausted(results, until=True)
        return Result(any(found), largest(_highs(found)), largest(_highs(found)))

    @staticmethod
    def elements(name: str, result: Any, method: Callable[[Any], Any]) -> Result:
        """Evaluate `(a < b).all()`, `torch.any(a < b)` and their like."""
        slack = result.low if name == "all" else result.high
        return Result(method(result.value), slack, slack)


def slack_of(left: Any, operator: str, right: Any) -> tuple[float | None, float | None]:
    """The slack of one comparison, the smallest and the largest of its elements; None: has none."""
    if operator not in ORDERINGS:
        return None, None
    left, right = _numbers(left), _numbers(right)
    if left is None or right is None:
        return None, None
    try:
        difference = right - left if operator[0] == "<" else left - right
    except (TypeError, ValueError, RuntimeError):
        return None, None  # shapes or kinds that cannot be subtracted: no slack, only a truth
    if not hasattr(difference, "min"):
        return float(difference), float(difference)
    size = difference.numel() if hasattr(difference, "numel") else difference.size
    if size == 0:
        return None, None
    return float(difference.min()), float(difference.max())


def finite(slack: float | None) -> float | None:
    """The slack, or None where it is infinite or no number."""
    return slack if slack is not None and math.isfinite(slack) else None


def smallest(slacks: Iterable[float | None]) -> float | None:
    """The smallest of the slacks that there are; no number where one of them is none."""
    known = [slack for slack in slacks if slack is not None]
    return math.nan if any(map(math.isnan, known)) else min(known, default=None)


def largest(slacks: Iterable[float | None]) -> float | None:
    """The largest of the slacks that there are; no number where one of them is none."""
    known = [slack for slack in slacks if slack is not None]
    return math.nan if any(map(math.isnan, known)) else max(known, default=None)


def _compare(left: Any, operator: str, right: Any) -> Any:
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "in":
            return left in right
        case "not in":
            return left not in right
        case "is":
            return left is right
    return left is not right


def _numbers(value: Any) -> Any:
    """A number or an array of numbers in double precision; None for anything else."""
    if isinstance(value, str | bytes | complex):
        return None
    try:
        if hasattr(value, "detach"):
            return value.detach().double()
        if hasattr(value, "dtype") and hasattr(value, "astype"):
            return value.astype(float)
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _exhausted(results: Iterable[Any], *, until: bool) -> list[Any]:
    """All results; past the one that decides, where the page would stop, errors end the search."""
    found: list[Any] = []
    decided = False
    iterator = iter(results)
    while True:
        try:
            result = next(iterator)
            truth = bool(result)
        except StopIteration:
            return found
        except Exception:
            if decided:
                return found
            raise
        found.append(result)
        decided = decided or truth is until


def _plain(result: Any) -> Any:
    return result.value if isinstance(result, Result) else result


def _lows(results: Iterable[Any]) -> list[float | None]:
    return [result.low for result in results if isinstance(result, Result)]


def _highs(results: Iterable[Any]) -> list[float | None]:
    return [result.high for result in results if isinstance(result, Result)]


def start() -> None:
    """Let rewritten functions run in this process, their assertions raising and not noted.

    A page sends its functions to processes of its own; the kernel's recorder replaces this one.
    """
    recorder = Recorder(lambda: 0, lambda: True)
    recorder.process = -1
    sys._nbkit_asserts = recorder  # type: ignore[attr-defined]
