"""What a page says of an exercise is what the registry says, and neither has one more."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bookkit.exercises.exercise import Exercise
from bookkit.exercises.registry import all_exercises, exercise_notebook

ROOT = Path(__file__).parents[2]
HINTS = ["Hint 1: the idea", "Hint 2: the shape", "Hint 3: almost the code"]
CHECK = re.compile(r"^nbkit\.check\(\"([^\"]+)\", (\w+)\)", re.MULTILINE)


def page_of(chapter: int, folder: str) -> str:
    (path,) = (ROOT / folder).glob(f"{chapter:02d}_*.md")
    return path.read_text("utf-8")


def section_of(exercise: Exercise) -> str:
    sections = re.split(r"^## ", page_of(exercise.chapter, "solutions"), flags=re.MULTILINE)
    (section,) = [part for part in sections if f"\n`{exercise.id}` · " in part]
    return section


def of_exercise(exercise: Exercise) -> Any:
    return pytest.param(exercise, id=exercise.id, marks=pytest.mark.chapter(exercise.chapter))


EXERCISES = all_exercises()
each_exercise = pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES.values()])


@each_exercise
def test_page_states_title_difficulty_and_minutes(exercise: Exercise) -> None:
    section = section_of(exercise)
    assert section.splitlines()[0] == exercise.title
    line = f"`{exercise.id}` · difficulty {exercise.difficulty} of 5 · {exercise.minutes} minutes"
    assert line in section.splitlines()


@each_exercise
def test_page_has_goal_example_hints_stub_check_and_takeaway(exercise: Exercise) -> None:
    section = section_of(exercise)
    assert "**Goal:**" in section
    assert re.search(r"^\*\*By hand", section, re.MULTILINE)
    assert re.findall(r"^:::\{dropdown\} (.*)$", section, re.MULTILINE) == HINTS
    assert CHECK.findall(section) and CHECK.findall(section)[0][0] == exercise.id
    name = CHECK.findall(section)[0][1]
    solution = re.search(r"^:tags: \[solution\]\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert solution is not None and f"def {name}(" in solution.group(1)
    assert ":tags: [try-it]" in section
    assert "**What to take away.**" in section


@each_exercise
def test_the_chapter_names_the_exercise(exercise: Exercise) -> None:
    assert f"`{exercise.id}`" in page_of(exercise.chapter, "notebooks")


def test_no_page_checks_an_exercise_that_is_not_there() -> None:
    for path in sorted((ROOT / "solutions").glob("*.md")):
        for name, _ in CHECK.findall(path.read_text("utf-8")):
            assert name in EXERCISES, f"{path.name} checks {name}"


def test_the_order_of_a_page_is_the_order_of_the_registry() -> None:
    for path in sorted((ROOT / "solutions").glob("*.md")):
        ids = [name for name, _ in CHECK.findall(path.read_text("utf-8"))]
        assert ids == [name for name in EXERCISES if name in ids]


def test_every_exercise_notebook_names_its_exercises() -> None:
    """A cell for the solution alone must not swallow the heading behind it."""
    for exercise in all_exercises().values():
        notebook = json.loads((ROOT / exercise_notebook(exercise.chapter)).read_text())
        cells = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown")
        text = "\n".join(cells)
        assert f"`{exercise.id}` · difficulty {exercise.difficulty} of 5" in text
        assert f"## {exercise.title}" in text
