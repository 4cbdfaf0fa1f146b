"""`nbkit.measured`: where a recorded result comes from, and whether its code is today's.

A page displays the facts of the stamp. Whether the code has changed since is judged when the book
is rendered, because a page is not run again when the code of a study changes.
"""

from pathlib import Path
from typing import Any

from nbkit.errors import UserError
from nbkit.runs.results import read_result
from nbkit.runs.root import ROOT

MEASURED_MIME = "application/vnd.nbkit.measured+json"


def measured(*results: str | Path) -> None:
    """Display one line for each recorded result: when and where it was measured.

    Args:
        results: stamped result files, absolute or from the working folder.

    Raises:
        UserError: none is given, or one lies outside the repository or has no stamp.

    """
    if not results:
        raise UserError("nbkit.measured needs a result file, as studies/results/NAME.json")
    for result in results:
        _display(entry_of(Path(result).resolve(), ROOT))


def entry_of(result: Path, root: Path) -> dict[str, Any]:
    """What is stored for a result: "file" from the root, "line" to read.

    Raises:
        UserError: it lies outside the repository, or has no stamp.

    """
    if not result.is_relative_to(root):
        raise UserError(f"{result} lies outside the repository")
    file = result.relative_to(root).as_posix()
    return {"file": file, "line": f"{file}: {facts(stamp_of(result))}"}


def facts(stamp: dict[str, Any]) -> str:
    """Date, device, torch and commit of a stamp, and whether the code was the commit's."""
    known = [f"measured {stamp['started'][:10]} on {stamp['device_name']}"]
    torch = stamp.get("packages", {}).get("torch")
    known += [f"torch {torch}"] if torch else []
    code = {True: "", False: " with uncommitted changes", None: ", copied"}[stamp.get("clean")]
    if stamp.get("clean") is None and stamp.get("tree"):
        code = ""  # the tree was noted, and is verified
    return f"{', '.join(known)}; commit {stamp['commit'][:7]}{code}"


def measured_files(notebook: dict[str, Any]) -> list[str]:
    """The results that a stored notebook (nbformat 4, as a plain dict) displays a line of."""
    return [
        output["data"][MEASURED_MIME]["file"]
        for cell in notebook.get("cells", [])
        for output in cell.get("outputs", [])
        if MEASURED_MIME in output.get("data", {})
    ]


def stamp_of(result: Path) -> dict[str, Any]:
    """The stamp of a result.

    Raises:
        UserError: the file does not exist, is no JSON or has no whole stamp.

    """
    return read_result(result).stamp


def _display(entry: dict[str, Any]) -> None:
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(entry["line"])
        return
    if get_ipython() is None:
        print(entry["line"])
    else:
        display({"text/plain": entry["line"], MEASURED_MIME: entry}, raw=True)
