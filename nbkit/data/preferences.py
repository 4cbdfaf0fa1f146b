"""What a preference is, and the report of a loader: no row is left out in silence."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nbkit.data.json_lines import json_value, numbered_lines

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Message:
    """A turn of a chat.

    Attributes:
        role: "system", "user" or "assistant".
        content: its text.

    """

    role: str
    content: str


@dataclass(frozen=True)
class Preference:
    """Two answers to one prompt, of which the first was preferred.

    Attributes:
        prompt: the chat up to a user's turn.
        chosen: the answer that won.
        rejected: the other one.
        row: its row in the file, counted from 1.
        margin: how much better, where the data say so.

    """

    prompt: tuple[Message, ...]
    chosen: str
    rejected: str
    row: int
    margin: float | None = None


@dataclass(frozen=True)
class BadRow:
    """A row that was left out.

    Attributes:
        row: counted from 1.
        reason: a few words, the same for all rows with this fault.
        detail: what stood there.

    """

    row: int
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class LoadReport:
    """What became of the rows.

    Attributes:
        rows: how many were read.
        bad: those that were left out.

    """

    rows: int
    bad: tuple[BadRow, ...] = ()

    @property
    def kept(self) -> int:
        """Rows that were used."""
        return self.rows - len(self.bad)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were left out for each reason, the most frequent first."""
        return dict(Counter(bad.reason for bad in self.bad).most_common())

    def text(self, examples: int = 3) -> str:
        """Return the report in a line a reason, with the numbers of the first rows."""
        lines = [f"{self.kept} of {self.rows} rows kept"]
        for reason, count in self.counts.items():
            rows = [bad.row for bad in self.bad if bad.reason == reason]
            more = ", …" if count > examples else ""
            listed = ", ".join(map(str, rows[:examples]))
            lines.append(f"  {count} left out, {reason}: row {listed}{more}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Loaded:
    """Preferences, and the report of those that are missing."""

    preferences: list[Preference]
    report: LoadReport


class RowError(ValueError):
    """A row that cannot be used.

    Args:
        reason: a few words, for counting.
        detail: what stood there.

    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


@dataclass
class Collector:
    """Runs a parser over rows and sorts its results from its complaints."""

    kept: list[Any] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    rows: int = 0

    def add(self, row: int, make: Callable[[], Any]) -> None:
        """Keep what ``make`` returns, or note the ``RowError`` that it raises."""
        self.rows += 1
        try:
            self.kept.append(make())
        except RowError as error:
            self.bad.append(BadRow(row, error.reason, error.detail))

    def report(self) -> LoadReport:
        """Return what became of the rows."""
        return LoadReport(self.rows, tuple(self.bad))


def load_rows(
    path: Path | str | Sequence[Path], parse: Callable[[dict[str, Any], int], Preference]
) -> Loaded:
    """Read JSON lines, plain or gzipped; empty lines count as rows without content and are skipped.

    Args:
        path: the file, ".jsonl", ".jsonl.gz" or ".parquet"; or several, whose rows are counted on.
        parse: a row's object and number to a preference; raises ``RowError`` for a broken one.

    Raises:
        FileNotFoundError: there is no such file.

    """
    collector, before = Collector(), 0
    for file in [path] if isinstance(path, str | Path) else path:
        number = before
        for number, line in numbered_lines(file, before):
            collector.add(number, partial(_parsed, parse, line, number))
        before = number
    return Loaded(collector.kept, collector.report())


def _parsed(
    parse: Callable[[dict[str, Any], int], Preference], line: bytes, number: int
) -> Preference:
    return parse(json_object(line), number)


def json_object(line: bytes) -> dict[str, Any]:
    """Return the object that stands in a line; ``RowError`` where none does."""
    try:
        value = json_value(line)
    except ValueError as error:
        raise RowError("bad JSON", str(error)) from None
    if not isinstance(value, dict):
        raise RowError("bad JSON", f"a {type(value).__name__} where an object is wanted")
    return value


def text_field(row: dict[str, Any], name: str) -> str:
    """Return a field that must hold text."""
    if row.get(name) is None:
        raise RowError("missing field", name)
    value = row[name]
    if not isinstance(value, str):
        raise RowError("wrong type", f"{name} is a {type(value).__name__}, not text")
    return value


def number_field(value: Any, name: str) -> float:
    """Return a value that must be a number: finite, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError("wrong type", f"{name} is {value!r}, not a number")
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise RowError("wrong type", f"{name} is {number}, not a number")
    return number


def chat_field(row: dict[str, Any], name: str) -> list[Message]:
    """Return a field that must hold a list of messages."""
    if row.get(name) is None:
        raise RowError("missing field", name)
    return read_chat(row[name], name)


def read_chat(value: Any, name: str) -> list[Message]:
    """Return messages from a list of {"role", "content"}."""
    if not isinstance(value, list):
        raise RowError("wrong type", f"{name} is a {type(value).__name__}, not a list of messages")
    messages = []
    for i, turn in enumerate(value):
        if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
            raise RowError("wrong type", f"{name}[{i}] has no text as content")
        if turn.get("role") not in ROLES:
            raise RowError("unknown role", f"{name}[{i}] has the role {turn.get('role')!r}")
        messages.append(Message(turn["role"], turn["content"]))
    return messages


def checked(
    prompt: list[Message], chosen: str, rejected: str, row: int, margin: float | None = None
) -> Preference:
    """Return the preference if it can be learned from.

    Raises:
        RowError: "missing turn" (no user's turn before the answers, or one that is empty), "empty
            answer", or "equal pair".

    """
    if not prompt or prompt[-1].role != "user":
        last = prompt[-1].role if prompt else "nothing"
        raise RowError("missing turn", f"a user's turn must come before the answers, not {last}")
    if not prompt[-1].content.strip():
        raise RowError("missing turn", "the user's turn before the answers is empty")
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer.strip():
            raise RowError("empty answer", name)
    if chosen.strip() == rejected.strip():
        raise RowError("equal pair", chosen.strip()[:60])
    return Preference(tuple(prompt), chosen.strip(), rejected.strip(), row, margin)
