"""A notebook as its file holds it: read, written, its texts joined."""

import json
from pathlib import Path
from typing import Any

from nbkit.errors import UserError


def pasted_cell(notebook: dict[str, Any]) -> int | None:
    """The number, from 1, of the first cell that holds attachments (pasted pictures), or None."""
    cells = enumerate(notebook["cells"], start=1)
    return next((number for number, cell in cells if cell.get("attachments")), None)


def read_notebook(path: Path, name: str) -> dict[str, Any] | None:
    """Read a notebook file as a plain dict; None where there is no such file.

    Raises:
        UserError: the file is not a notebook of format 4.
    """
    if not path.exists():
        return None
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if notebook["nbformat"] != 4:
            raise ValueError(f"its format is {notebook['nbformat']}, not 4")
        for cell in notebook["cells"]:
            cell["cell_type"], cell["source"], cell["metadata"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{name} is not a readable notebook ({_first_line(error)}); restore it, or delete it "
            "and run `nbkit execute`"
        ) from error
    return notebook


def notebook_text(notebook: dict[str, Any]) -> str:
    """Write a notebook as its file holds it: sorted keys, one space, texts as lists of lines."""
    lines = json.loads(json.dumps(notebook))
    for cell in lines["cells"]:
        cell["source"] = join(cell["source"]).splitlines(keepends=True)
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = join(output["text"]).splitlines(keepends=True)
            for mime, value in output.get("data", {}).items():
                if isinstance(value, str) and (mime.startswith("text/") or "svg" in mime):
                    output["data"][mime] = value.splitlines(keepends=True)
    return json.dumps(lines, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def join(text: str | list[str]) -> str:
    """Join a notebook's text field, which is a string or a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines()), type(error).__name__)
