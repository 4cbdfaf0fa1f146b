"""The hours on the landing page are those of the exercises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def chapters_in(text: str) -> list[int]:
    """The chapters that a way through the book names, such as 01–03, 11."""
    return [
        number
        for first, last in re.findall(r"\b(\d\d)(?:–(\d\d))?\b", text)
        for number in range(int(first), int(last or first) + 1)
        if number in cards()
    ]


def test_hours_of_the_ways_through_are_the_sums_of_their_cards() -> None:
    text = (REPOSITORY / "book" / "index.md").read_text(encoding="utf-8")
    ways = re.findall(r"^\| \*\*.*?\| (\d\d[^|]*)\| (\d+) \|$", text, flags=re.MULTILINE)
    assert len(ways) == 4
    times = {number: said.split(" to read, ") for number, said in cards().items()}
    for way, hours in ways:
        read, _, practised = way.partition(";")
        exercises = read if "with exercises" in read else practised
        total = sum(minutes_of(times[number][0]) for number in chapters_in(read))
        total += sum(
            minutes_of(times[number][1].removesuffix(" of exercises"))
            for number in chapters_in(exercises)
        )
        assert int(hours) == int(total / 60 + 0.5), way


@pytest.mark.parametrize(
    ("duration", "minutes"), [("2 h 40 min", 160), ("1 h", 60), ("45 min", 45), ("65 min", 65)]
)
def test_minutes_of(duration: str, minutes: int) -> None:
    assert minutes_of(duration) == minutes
