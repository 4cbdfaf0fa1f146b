"""The grades of a class as a table, as JSON and as CSV."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from bookkit.grading.judge import Mark
from bookkit.grading.submissions import Submission

SIGNS = {"passed": "✔", "failed": "✘", "not written": "○", "missing": "·", "ended": "!"}
COLUMNS = ("learner", "exercise", "state", "marks", "out_of", "attempts", "sentence")
BUILD = "build."  # so begins the name of a build in the file of progress
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Grade:
    """What one learner has reached."""

    submission: Submission
    marks: Sequence[Mark]

    @property
    def total(self) -> int:
        """The sum of the marks: an exercise that passes counts as many as its difficulty."""
        return sum(mark.marks for mark in self.marks)

    @property
    def out_of(self) -> int:
        """The sum that can be reached."""
        return sum(mark.out_of for mark in self.marks)


def as_json(grades: Sequence[Grade], seed: int) -> str:
    """Everything, with the seed that draws the same cases again."""
    learners = [_plain(grade) for grade in grades]
    return json.dumps({"seed": seed, "learners": learners}, indent=1, ensure_ascii=False) + "\n"


def _plain(grade: Grade) -> dict[str, Any]:
    tries = grade.submission.attempts
    return {
        "learner": grade.submission.learner,
        "marks": grade.total,
        "out_of": grade.out_of,
        "problems": grade.submission.problems,
        "exercises": [
            asdict(mark) | {"attempts": tries.get(mark.exercise)} for mark in grade.marks
        ],
    }


def as_csv(grades: Sequence[Grade]) -> str:
    """One line an exercise and learner. No field can be taken for a formula by a spreadsheet."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for grade in grades:
        tries = grade.submission.attempts
        for mark in grade.marks:
            row = asdict(mark) | {"learner": grade.submission.learner}
            row["attempts"] = tries.get(mark.exercise, "")
            writer.writerow([_harmless(row[name]) for name in COLUMNS])
    return stream.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def as_table(grades: Sequence[Grade]) -> Table:
    """One line a learner: marks, a sign for each exercise, chapter after chapter, and builds."""
    table = Table(box=None, pad_edge=False)
    table.add_column("learner", overflow="fold")
    table.add_column("marks", justify="right")
    table.add_column("passed", justify="right")
    table.add_column("exercises", overflow="fold")
    if any(is_build(mark) for grade in grades for mark in grade.marks):
        table.add_column("builds", overflow="fold")
    for grade in grades:
        passed = sum(mark.state == "passed" for mark in grade.marks)
        signs = "".join(SIGNS[mark.state] for mark in grade.marks if not is_build(mark))
        builds = ", ".join(
            f"{mark.exercise.removeprefix(BUILD)} {SIGNS[mark.state]}"
            for mark in grade.marks
            if is_build(mark)
        )
        table.add_row(
            grade.submission.learner,
            f"{grade.total} of {grade.out_of}",
            f"{passed} of {len(grade.marks)}",
            signs,
            *([builds] if len(table.columns) == 5 else []),
        )
    return table


def is_build(mark: Mark) -> bool:
    """Whether a mark is that of a build."""
    return mark.exercise.startswith(BUILD)


def sentences(grades: Sequence[Grade]) -> list[str]:
    """One line for each thing that is wrong: who, where, what."""
    lines = []
    for grade in grades:
        learner = grade.submission.learner
        lines += [f"{learner}: {problem}" for problem in grade.submission.problems]
        lines += [
            f"{learner}: {mark.exercise}: {mark.sentence}"
            for mark in grade.marks
            if mark.state in ("failed", "ended")
        ]
    return lines
