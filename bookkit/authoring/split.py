"""`nbkit exercises split`: cuts the learners' notebooks out of the solutions.

`solutions/NN_slug.md` is the one master of an exercise and its solution. In it, tags say what
becomes of a cell:

- `solution`: a code cell that the learner writes; it becomes a stub.
- `solution-only`: a cell that the exercise leaves out.
- `try-it`: a code cell that uses what the learner writes, so it fails until that is written; the
  exercise also tags it `raises-exception`, so that Run All goes on behind it.

Every other cell is copied as it is.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bookkit.authoring.notebook_file import notebook_text, pasted_cell, read_notebook
from bookkit.authoring.page import (
    Cell,
    Content,
    Page,
    content_of_notebook,
    digest,
    notebook_of_content,
    shown_texts,
)
from bookkit.authoring.repository import notebooks, relative, write_atomically
from bookkit.authoring.stamp import Finding
from bookkit.authoring.stubs import has_markers, stub_of
from nbkit.errors import UserError

SOLUTION = "solution"
SOLUTION_ONLY = "solution-only"
TRY_IT = "try-it"
GOES_ON = "raises-exception"  # Jupyter's own tag: Run All does not stop at an error of this cell
MEND = "run `nbkit exercises split`"
LABEL = re.compile(r"^\(([^)\s]+)\)=\s*$|^:(?:label|name):\s*(\S+)", flags=re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """One generated notebook: where it goes, what it should hold, what is there now."""

    root: Path
    solution: Page
    path: Path

    @property
    def name(self) -> str:
        """The exercise's path from the root, as messages name it."""
        return relative(self.path, self.root)

    @property
    def beside(self) -> Path:
        """Where the new version goes when a learner has edited the old one."""
        return self.path.with_suffix(".new.ipynb")

    def wanted(self) -> dict[str, Any]:
        """The notebook that the solution gives now.

        Raises:
            UserError: a cell of the solution cannot be cut; the message names the cell.
        """
        content = exercise_content(self.solution.content(), self.solution.name)
        notebook = notebook_of_content(content, key=self.name, macros=self.solution.macros())
        notebook["metadata"]["nbkit"] = {
            "exercise": {"source": self.solution.name, "digest": _digest(content)}
        }
        return notebook

    def state(self) -> str:
        """ "missing", "current", "outdated" (generated, from an older text) or "edited"."""
        return self._state_of(self.path)

    def state_beside(self) -> str:
        """The state of the new version beside an edited exercise, in the words of `state`."""
        return self._state_of(self.beside)

    def _state_of(self, path: Path) -> str:
        made = self.wanted()
        wanted = made["metadata"]["nbkit"]["exercise"]
        name = relative(path, self.root)
        there = read_notebook(path, name)
        if there is None:
            return "missing"
        if pasted_cell(there) is not None:
            return "edited"
        found = _digest(content_of_notebook(there, name))
        if found == wanted["digest"]:
            return "current" if shown_texts(there) == shown_texts(made) else "outdated"
        recorded = there["metadata"].get("nbkit", {}).get("exercise", {}).get("digest")
        return "outdated" if found == recorded else "edited"


def find_exercises(root: Path, solutions: list[Page]) -> list[Exercise]:
    """List the exercises that the solutions give."""
    folder = root / "solutions"
    return [
        Exercise(root, page, root / "exercises" / f"{page.text.stem}.ipynb")
        for page in solutions
        if page.text.parent == folder
    ]


def write(exercise: Exercise) -> str:
    """Bring one exercise up to date, never over a learner's work.

    Returns:
        One line that says what was done.

    Raises:
        UserError: both the exercise and the new version beside it were edited; both stay.
    """
    state = exercise.state()
    if state == "current":
        return f"{exercise.name}: up to date"
    text = notebook_text(exercise.wanted())
    if state == "edited":
        beside = relative(exercise.beside, exercise.root)
        if exercise.state_beside() == "edited":
            raise UserError(
                f"{exercise.name} and {beside} have both been edited and stay as they are; "
                f"rename {beside} to keep its work, or delete it, and {MEND} again"
            )
        write_atomically(exercise.beside, text)
        return f"{exercise.name}: has been edited and stays as it is; the new version is {beside}"
    write_atomically(exercise.path, text)
    return f"{exercise.name}: written from {exercise.solution.name}"


def check(root: Path, exercises: list[Exercise], *, orphans: bool = True) -> list[Finding]:
    """Find exercises that are not what their solutions give."""
    found = []
    for exercise in exercises:
        name, source = exercise.name, exercise.solution.name
        try:
            state = exercise.state()
        except UserError as error:
            found.append(Finding(source, str(error).removeprefix(f"{source}: "), ""))
            continue
        if state == "missing":
            found.append(Finding(name, f"does not exist, though {source} does", MEND))
        elif state == "outdated":
            found.append(Finding(name, f"is not what {source} gives now", MEND))
        elif state == "edited":
            mend = f"edit {source} and {MEND} (a learner's own work belongs in a copy)"
            found.append(Finding(name, "was edited; it is generated", mend))
    known = {exercise.path for exercise in exercises}
    for path in notebooks(root, ("exercises",)) if orphans else []:
        if path not in known and not path.name.endswith(".new.ipynb"):
            problem = f"has no solutions/{path.stem}.md that it is cut from"
            found.append(Finding(relative(path, root), problem, "write it, or delete the notebook"))
    return found


def exercise_content(solution: Content, name: str) -> Content:
    """Cut an exercise out of a solution.

    Raises:
        UserError: a cell cannot be cut, or holds a label that the book would then have twice.
    """
    cells = []
    numbers = {id(cell): n for n, cell in enumerate(solution.code_cells, start=1)}
    for cell in solution.cells:
        if SOLUTION_ONLY in cell.tags:
            continue
        if cell.kind == "markdown":
            label = LABEL.search(cell.source)
            if label:
                raise UserError(
                    f"{name}: the label {label.group(1) or label.group(2)!r} would stand in the "
                    "exercise too; put it into a cell of its own with the tag `solution-only`"
                )
        try:
            cells.append(_cut(cell))
        except UserError as error:
            raise UserError(f"{name}: code cell {numbers[id(cell)]}: {error}") from error
    front = {**solution.front, **solution.settings.get("exercises", {})}
    for key in ("title", "short_title"):
        if key in front and key not in solution.settings.get("exercises", {}):
            front[key] = re.sub(r"\bSolutions\b", "Exercises", str(front[key]))
    return Content(front, {}, tuple(cells))


def _cut(cell: Cell) -> Cell:
    if cell.kind == "code" and TRY_IT in cell.tags:
        cell = replace(cell, metadata=cell.metadata | {"tags": [*cell.tags, GOES_ON]})
    if cell.kind != "code" or not (SOLUTION in cell.tags or has_markers(cell.source)):
        return cell
    tags = [tag for tag in cell.tags if tag != SOLUTION]
    metadata = {key: value for key, value in cell.metadata.items() if key != "tags"}
    return replace(
        cell, source=stub_of(cell.source), metadata=metadata | ({"tags": tags} if tags else {})
    )


def _digest(content: Content) -> str:
    return digest([content.front, [cell.as_list() for cell in content.cells]])
