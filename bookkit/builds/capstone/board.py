"""The board: what each method has reached, on what it was measured, and whose place is where."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from nbkit.errors import UserError
from nbkit.runs.root import ROOT

BOARD = "solutions/builds/board.json"
FOLDER = "solutions/builds/capstone"
LEVEL = 0.95
MORE = 1.1  # times the tokens that are claimed: a file draws, and uses some more or fewer
DIGEST = r"^[0-9a-f]{64}$"

# What is no number, and what is none of its kind, is refused when an entry is read.
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=10**6)]


class Entry(BaseModel):
    """One line of the board: a file, and what a verification of it has found.

    Attributes:
        name: short, in small letters.
        method: one sentence, the first line of the file.
        digest: SHA-256 of the file.
        source: the file itself; empty on the board, where the file stands beside it.
        rules: digest of the task's numbers.
        before: accuracy of each pupil as it was given.
        after: accuracy of each pupil that came back.
        tokens: that marks have cost, a pupil.
        processor_seconds: of the learner's processes, a pupil.
        commit: of the book.
        date: of the verification.
        versions: of the packages.
        processor: on which it ran.

    """

    name: str = Field(pattern=r"^[a-z0-9_-]{1,40}$")
    method: str = Field(min_length=1, max_length=200)
    digest: str = Field(pattern=DIGEST)
    source: str = Field(default="", max_length=1_000_000)
    rules: str
    before: list[Share] = Field(min_length=2, max_length=100)
    after: list[Share] = Field(min_length=2, max_length=100)
    tokens: list[Count] = Field(min_length=2, max_length=100)
    processor_seconds: list[Seconds] = Field(min_length=2, max_length=100)
    commit: str
    date: str
    versions: dict[str, str]
    processor: str

    @property
    def accuracy(self) -> float:
        """Mean over the pupils."""
        return fmean(self.after)

    @property
    def half_width(self) -> float:
        """Of the interval that holds the mean over all pupils in 95 of 100 verifications."""
        return student(len(self.after) - 1) * stdev(self.after) / math.sqrt(len(self.after))

    def said(self) -> str:
        """The accuracy with its interval."""
        return f"{self.accuracy:.1%} ± {100 * self.half_width:.1f}"


def student(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's distribution with so many degrees of freedom.

    From Cornish and Fisher's expansion about the normal quantile (Abramowitz and Stegun 26.7.5);
    1 and 2 have closed forms. It is within 1 % for 3 and more.
    """
    if freedom == 1:
        return math.tan(math.pi / 2 * LEVEL)
    if freedom == 2:
        return LEVEL * math.sqrt(2 / (1 - LEVEL**2))
    z, n = 1.959964, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def digest_of(source: str) -> str:
    """SHA-256 of a file's text."""
    return hashlib.sha256(source.encode()).hexdigest()


def board(path: Path = ROOT / BOARD) -> list[Entry]:
    """The lines of the board, the best first.

    Raises:
        UserError: there is no board, or it cannot be read.

    """
    try:
        content = json.loads(path.read_text("utf-8"))
        entries = [Entry.model_validate(line) for line in content["entries"]]
    except FileNotFoundError:
        raise UserError(f"there is no board: {path} is missing") from None
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the board {path} cannot be read: {error}") from None
    return sorted(entries, key=lambda entry: -entry.accuracy)


def put(entry: Entry, rules: dict[str, Any], path: Path = ROOT / BOARD) -> None:
    """Write a line of the board, in place of an older one of that name; its file is not copied."""
    others = [old for old in board(path) if old.name != entry.name] if path.exists() else []
    lines = [one.model_dump(exclude={"source"}) for one in [*others, entry]]
    content = {"rules": rules, "entries": sorted(lines, key=lambda line: -fmean(line["after"]))}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_entry(path: Path) -> Entry:
    """An entry that somebody sends.

    Raises:
        UserError: there is no such file, it is no entry, or the file in it is another one.

    """
    try:
        entry = Entry.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its text"
        raise UserError(f"{path} is no entry of the board: look at {where}") from None
    if digest_of(entry.source) != entry.digest:
        raise UserError(
            f"{path}: the digest is not that of the file in it, so one of them was changed "
            "afterwards"
        )
    return entry


def refuted(entry: Entry, found: Entry, questions: int) -> list[str]:
    """What an entry claims and a second verification does not find; none: it holds.

    The claim is judged by the spread that the second verification found, never by its own.

    Args:
        entry: what somebody sends.
        found: what the file in it has reached here.
        questions: answers that were marked a pupil; fewer leave more to chance.

    """
    said = []
    spread = max(stdev(found.after), 0.5 / math.sqrt(questions))
    sizes = 1 / len(found.after) + 1 / len(entry.after)
    reach = student(len(found.after) - 1) * spread * math.sqrt(sizes)
    if entry.accuracy > found.accuracy + reach:
        said.append(
            f"it claims an accuracy of {entry.accuracy:.1%}; found are {found.said()}, and chance "
            f"explains {100 * reach:.1f} points"
        )
    claimed, counted = fmean(entry.tokens), fmean(found.tokens)
    if counted > MORE * claimed:
        said.append(f"it claims {claimed:,.0f} tokens a pupil; the judge counted {counted:,.0f}")
    return said


def apart(entry: Entry, other: Entry) -> bool:
    """Whether the accuracies of two entries differ by more than chance explains (Welch)."""
    parts = [stdev(one.after) ** 2 / len(one.after) for one in (entry, other)]
    total = sum(parts)
    if total == 0:
        return entry.accuracy != other.accuracy
    sizes = [len(one.after) - 1 for one in (entry, other)]
    freedom = total**2 / sum(p**2 / n for p, n in zip(parts, sizes, strict=True))
    return abs(entry.accuracy - other.accuracy) > student(max(1, int(freedom))) * math.sqrt(total)


def place_of(entry: Entry, entries: Sequence[Entry]) -> str:
    """Where an entry would stand, as a sentence."""
    others = [one for one in entries if one.name != entry.name]
    above = [one for one in others if one.accuracy > entry.accuracy]
    place, size = len(above) + 1, len(others) + 1
    near = [one.name for one in others if not apart(entry, one)]
    told = f"{entry.said()}: place {place} of {size} on the board"
    return told + (f", not told apart from {' and '.join(near)}" if near else "")
