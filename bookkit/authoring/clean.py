"""Takes out of executed notebooks what differs from run to run without meaning anything."""

import json
import re
from typing import Any

from bookkit.authoring.page import join

ANSI_CURSOR = re.compile(r"\x1b\[[0-9;]*[A-LN-Za-ln-z]")
FIGURE_LIMIT_BYTES = 150_000
IMAGE_MIMES = ("image/png", "image/jpeg", "image/svg+xml")


def clean_outputs(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Clean the outputs of one cell.

    Execution counts go; a progress bar that redraws its line keeps the last state; texts become
    one string; anything else stays as it ran.
    """
    cleaned = []
    for output in json.loads(json.dumps(outputs)):
        if "execution_count" in output:
            output["execution_count"] = None
        if output["output_type"] == "stream":
            output["text"] = last_state(join(output["text"]))
            if not output["text"]:
                continue
        cleaned.append(output)
    return cleaned


def last_state(text: str) -> str:
    """What a terminal shows after a text with carriage returns: each line's last state.

    A shorter state leaves the rest of a longer one standing, as a terminal does.
    """
    lines = []
    for line in ANSI_CURSOR.sub("", text.replace("\r\n", "\n")).split("\n"):
        shown = ""
        for state in line.split("\r"):
            shown = state + shown[len(state) :]
        lines.append(shown.rstrip() if "\r" in line else shown)
    return "\n".join(lines)


def large_figures(notebook: dict[str, Any]) -> list[tuple[int, int]]:
    """Find the figures over the limit: (number of the code cell, bytes as stored)."""
    found = []
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, start=1):
        for output in cell["outputs"]:
            for mime in IMAGE_MIMES:
                size = len(join(output.get("data", {}).get(mime, "")))
                size = size if "svg" in mime else size * 3 // 4
                if size > FIGURE_LIMIT_BYTES:
                    found.append((number, size))
    return found
