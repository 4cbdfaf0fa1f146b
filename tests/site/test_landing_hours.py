"""The hours on the landing page are those of the exercises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CARD = re.compile(r"grid-item-card\} (\d+)\. [^\n]*\n:link: .*?\+\+\+\n([^\n]+)\n", re.DOTALL)


def hours_and_minutes(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return " ".join([f"{hours} h"] * (hours > 0) + [f"{rest} min"] * (rest > 0))


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
    from nbkit.exercises.registry import all_exercises

    minutes: dict[int, int] = {}
    for exercise in all_exercises().values():
        minutes[exercise.chapter] = minutes.get(exercise.chapter, 0) + exercise.minutes
    for chapter, said in cards().items():
        assert said == f"1 h to read, {hours_and_minutes(minutes[chapter])} of exercises", chapter


@pytest.mark.parametrize(
    ("minutes", "said"), [(160, "2 h 40 min"), (60, "1 h"), (45, "45 min"), (65, "1 h 5 min")]
)
def test_hours_and_minutes(minutes: int, said: str) -> None:
    assert hours_and_minutes(minutes) == said
