"""`nbkit exercises exam`: the exercises without hints and without checks that name mistakes."""

import json
import re
from pathlib import Path
from typing import Any

from bookkit.authoring.notebook_file import join, notebook_text
from bookkit.authoring.repository import write_atomically
from bookkit.authoring.split import Exercise
from bookkit.authoring.suite.untouched import checked_ids

HINT = re.compile(
    r"^(?P<fence>:{3,})\{dropdown\} Hint\b.*?^(?P=fence)[ \t]*$\n?", re.MULTILINE | re.DOTALL
)
HOW = re.compile(r"^\*\*How it works\.\*\*.*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
NOTE = (
    "This is the exam form: it has no hints, and no check names your mistakes. Write the "
    "functions, try them on the examples by hand, save, and hand this file in under its own name."
)


def exam_form(exercise: Exercise) -> dict[str, Any]:
    """The notebook of an exercise without its hints, and without its checks."""
    notebook: dict[str, Any] = json.loads(json.dumps(exercise.wanted()))
    cells = []
    for cell in notebook["cells"]:
        source = join(cell["source"])
        if cell["cell_type"] == "code" and checked_ids(source):
            continue
        if cell["cell_type"] == "markdown":
            source = HOW.sub(f"{NOTE}\n\n", HINT.sub("", source)).strip("\n")
            if not source:
                continue
            if source != join(cell["source"]):
                cell["metadata"].pop("nbkit", None)
            cell["source"] = source
        cells.append(cell)
    notebook["cells"] = cells
    notebook["metadata"].pop("nbkit", None)
    return notebook


def write_exam(exercise: Exercise, folder: Path) -> Path:
    """Write the exam form of a notebook into a folder, under the notebook's own name."""
    path = folder / exercise.path.name
    write_atomically(path, notebook_text(exam_form(exercise)))
    return path
