"""`nbkit exercises reset`: one exercise as it was handed out; what was written there is kept."""

import ast
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bookkit.authoring.notebook_file import join, notebook_text, read_notebook
from bookkit.authoring.reach.sources import without_magics
from bookkit.authoring.repository import relative, write_atomically
from bookkit.authoring.split import Exercise
from nbkit.errors import UserError

KEPT = Path(".nbkit/kept")


def reset(exercise: Exercise, exercise_id: str, function: str) -> str:
    """Put the stub of one exercise back into its notebook; every other cell stays.

    Args:
        exercise: the notebook.
        exercise_id: as in the exercise's heading.
        function: what the learner writes.

    Returns:
        One line that says what was done, and where the old text is.

    Raises:
        UserError: the notebook does not exist, or holds no cell with that function.
    """
    there = read_notebook(exercise.path, exercise.name)
    if there is None:
        raise UserError(f"{exercise.name} does not exist; `nbkit exercises split` writes it")
    stub = _cell(exercise.wanted(), function)
    assert stub is not None  # the solution page states it
    cell = _cell(there, function)
    if cell is None:
        raise UserError(
            f"no cell of {exercise.name} defines {function}; copy it from the exercise on the site"
        )
    old = join(cell["source"])
    if old.strip() == join(stub["source"]).strip():
        return f"{exercise_id}: is as it was handed out"
    kept = _free_name(exercise.root / KEPT, exercise_id)
    write_atomically(kept, old + "\n")
    cell["source"], cell["outputs"], cell["execution_count"] = stub["source"], [], None
    write_atomically(exercise.path, notebook_text(json.loads(json.dumps(there))))
    return (
        f"{exercise_id}: {exercise.name} holds the stub again; what you had written is in "
        f"{relative(kept, exercise.root)}. If the notebook is open, choose Revert in JupyterLab."
    )


def _cell(notebook: dict[str, Any], function: str) -> dict[str, Any] | None:
    """The last code cell that defines a function at its top."""
    found = None
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and _defines(join(cell["source"]), function):
            found = cell
    return found


def _defines(source: str, function: str) -> bool:
    try:
        body = ast.parse(without_magics(source)).body
    except SyntaxError:  # a half-written cell: the learner is in the middle of it
        return source.lstrip().startswith(f"def {function}(") or f"\ndef {function}(" in source
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in body)


def _free_name(folder: Path, exercise_id: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    path = folder / exercise_id / f"{stamp}.py"
    number = 1
    while path.exists():
        number += 1
        path = folder / exercise_id / f"{stamp}-{number}.py"
    return path
