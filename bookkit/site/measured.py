"""Whether recorded results that pages read ran the code of today: judged when the book is built.

A page reads a result where its stamp says so, or names one with ``nbkit.measured``. The theme lists
what a page read at its end, and writes the same sentence beside a line of ``nbkit.measured``; see
its module ``measured``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bookkit.authoring.repository import PAGE_FOLDERS, notebooks
from bookkit.authoring.result_line import ROOT, facts, measured_files, stamp_of
from bookkit.site.board import board_lines
from bookkit.site.films import films_of
from nbkit.errors import UserError

VARIABLE = "NBKIT_MEASURED"
FILE = "measured.json"
FOLDER = "results"


class UnknownResultError(Exception):
    """A page names or reads a recorded result that is not there; the message names both."""


def write_states(project: Path) -> Path:
    """Write what the theme says of the recorded results of a book; return the file.

    Args:
        project: folder of ``myst.yml``.

    Raises:
        UnknownResultError: a page names or reads a result that is not there, or has no stamp.

    """
    path = project / "_build" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(states_of(project, ROOT), indent=1) + "\n", encoding="utf-8")
    return path


def states_of(project: Path, root: Path) -> dict[str, Any]:
    """What is known of the results that stored pages read or name.

    Returns:
        "results": of each result by its path from the root "stale", "known", "text" (the sentence
        about its code) and "facts" (when and where it was measured); "pages": of each notebook by
        its path from the project the results that it read; "films": as ``films_of`` finds them,
        in the project or, where it has none, in the checkout; "board": the lines of the capstone's
        board, the best first.

    """
    from bookkit.authoring.results import Results  # it reads all the code; most starts need none

    own, others = Results(root), Results(project)
    try:
        lines = board_lines(project)
    except UserError as error:
        raise UnknownResultError(f"the board: {error}") from error
    found: dict[str, Any] = {"results": {}, "pages": {}, "films": {}, "board": lines}
    pages = [*project.glob("*.ipynb"), *notebooks(project, (*PAGE_FOLDERS, "exercises"))]
    for notebook in pages:
        content = json.loads(notebook.read_text(encoding="utf-8"))
        page = notebook.relative_to(project).as_posix()
        try:
            read = results_read(content, (project, root))
            for file in {*read, *measured_files(content)} - found["results"].keys():
                # A page that is built elsewhere may name a result of this checkout.
                results = others if (project / file).is_file() else own
                found["results"][file] = _state(results, file)
        except UserError as error:
            raise UnknownResultError(f"{page}: {error}") from error
        if read:
            found["pages"][page] = read
    try:
        found["films"] = films_of(project) or films_of(root)
        for file in {film["result"] for film in found["films"].values()} - found["results"].keys():
            found["results"][file] = _state(others if (project / file).is_file() else own, file)
    except UserError as error:
        raise UnknownResultError(str(error)) from error
    return found


def _state(results: Any, file: str) -> dict[str, Any]:
    """What the theme says of a result, by its path from the root of its checkout."""
    stamp = stamp_of(results.root / file)
    state = results.state(results.root / file, stamp)
    return {
        "stale": state.is_stale,
        "known": state.known,
        "text": str(state),
        "facts": facts(stamp),
    }


def results_read(notebook: dict[str, Any], roots: Sequence[Path]) -> list[str]:
    """The results that a stored notebook read, by their paths from the project.

    What else it read in a folder of results (metrics, weights) must lie beside a stamped one.

    Args:
        notebook: nbformat 4, as a plain dict.
        roots: where results are looked for, in this order: the book's folder and, of a book that
            is built elsewhere, the checkout that its pages ran in.

    Raises:
        UserError: such a file lies beside no result, or beside one without a stamp.

    """
    stamp = notebook.get("metadata", {}).get("nbkit", {}).get("stamp", {})
    files = [file for file in stamp.get("reads", {}) if FOLDER in Path(file).parts[:-1]]
    results = sorted(file for file in files if file.endswith(".json"))
    for file in set(files) - set(results):
        folders = ((root / file).parent for root in roots)
        beside = next(filter(None, (sorted(folder.glob("*.json")) for folder in folders)), None)
        if beside is None:
            raise UserError(f"{file} was read, but no stamped result lies beside it")
        for result in beside:
            stamp_of(result)
    return results
