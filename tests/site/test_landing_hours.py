"""The hours on the landing page are those of the exercises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bookkit.authoring.landing import PATH

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_CORE_PATH_MINUTES = 60
CARD = re.compile(r"grid-item-card\} (\d+)\. [^\n]*\n:link: .*?\+\+\+\n([^\n]+)\n", re.DOTALL)


def minutes_of(duration: str) -> int:
    """Minutes of a duration such as 2 h 40 min, 65 min or 1 h."""
    match = re.fullmatch(r"(?:(\d+) h)? ?(?:(\d+) min)?", duration)
    assert match, duration
    assert match[0], duration
    return 60 * int(match[1] or 0) + int(match[2] or 0)


def cards() -> dict[int, str]:
    text = (REPOSITORY / "book" / "index.md").read_text(encoding="utf-8")
    blocks = text.split(":::{")
    found = (CARD.match(block) for block in blocks)
    return {int(match[1]): match[2] for match in found if match}


def test_cards_of_written_chapters_are_found() -> None:
    listed = re.findall(r"file: notebooks/(\d\d)_", (REPOSITORY / "myst.yml").read_text("utf-8"))
    assert sorted(cards()) == sorted(map(int, listed))


@pytest.mark.slow
def test_hours_of_exercises_are_those_of_the_registry() -> None:
    """Imports every exercise, hence torch."""
    from bookkit.exercises.registry import all_exercises

    minutes: dict[int, int] = {}
    for exercise in all_exercises().values():
        minutes[exercise.chapter] = minutes.get(exercise.chapter, 0) + exercise.minutes
    for chapter, said in cards().items():
        reading, exercises = re.fullmatch(r"(.+) to read, (.+) of exercises", said).groups()
        assert minutes_of(reading) <= LONGEST_CORE_PATH_MINUTES, chapter
        assert minutes_of(exercises) == minutes[chapter], chapter


def test_the_ways_through_are_found_by_the_lint_that_adds_up_their_hours() -> None:
    lines = (REPOSITORY / "book" / "index.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if PATH.match(line)]) == 4


@pytest.mark.parametrize(
    ("duration", "minutes"), [("2 h 40 min", 160), ("1 h", 60), ("45 min", 45), ("65 min", 65)]
)
def test_minutes_of(duration: str, minutes: int) -> None:
    assert minutes_of(duration) == minutes
