"""The example on the page for authors is a real exercise."""

import re
from pathlib import Path
from typing import Any

from bookkit.exercises.proof import prove_exercise

PAGE = Path(__file__).parents[2] / "book" / "contributing_exercises.md"


def test_the_example_is_proven() -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, str(PAGE), "exec"), names)
    assert prove_exercise(names["EXERCISE"], range(1, 4)) == []
