"""Whether recorded results that pages name ran the code of today: judged when the book is built.

The theme writes the sentence beside the line that ``nbkit.measured`` stored; see its module
``measured``.
"""

from __future__ import annotations

import json
from pathlib import Path

from nbkit.authoring.errors import UserError
from nbkit.authoring.repository import PAGE_FOLDERS, notebooks
from nbkit.authoring.result_line import MEASURED_MIME, ROOT, measured_files

VARIABLE = "NBKIT_MEASURED"
FILE = "measured.json"


class UnknownResultError(Exception):
    """A page names a recorded result that is not there; the message names both."""


def write_states(project: Path) -> Path:
    """Write the state of every result that a page of the book names; return the file.

    Args:
        project: folder of ``myst.yml``. The code and the results are those of this package's own
            checkout.

    Raises:
        UnknownResultError: a page names a result that is not there.

    """
    path = project / "_build" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(states_of(project, ROOT), indent=1) + "\n", encoding="utf-8")
    return path


def states_of(project: Path, root: Path) -> dict[str, dict[str, object]]:
    """Of each result that a stored page names: "stale", and "text", the sentence about it."""
    from nbkit.authoring.results import Results  # it reads all the code; most starts need none

    results, found = Results(root), {}
    pages = [*project.glob("*.ipynb"), *notebooks(project, (*PAGE_FOLDERS, "exercises"))]
    for notebook in pages:
        text = notebook.read_text(encoding="utf-8")
        if MEASURED_MIME not in text:
            continue
        for file in measured_files(json.loads(text)):
            try:
                state = results.state_of(file)
            except UserError as error:
                page = notebook.relative_to(project).as_posix()
                raise UnknownResultError(f"{page}: {error}") from error
            found[file] = {"stale": state.is_stale, "known": state.known, "text": str(state)}
    return found
