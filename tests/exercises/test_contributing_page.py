"""The example on the page for authors is a real exercise."""

import re
from pathlib import Path
from typing import Any

from bookkit.exercises.proof import prove_exercise
from bookkit.exercises.solution import sections_of, solve

PAGE = Path(__file__).parents[2] / "book" / "contributing_exercises.md"
IMPORTS = "```{code-cell} ipython3\nimport torch\n```\n\n"


def block(fence: str, language: str) -> str:
    pattern = rf"^{fence}{language}\n(.*?)^{fence}$"
    (found,) = re.findall(pattern, PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return found


def test_the_example_is_proven() -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block("```", "python"), str(PAGE), "exec"), names)
    (section,) = sections_of(IMPORTS + block("````", "markdown"))
    exercise = solve(names["CHECK"], section, 99)
    assert exercise.goal == "The sum of the entries of each row that count."
    assert prove_exercise(exercise, range(1, 4)) == []
