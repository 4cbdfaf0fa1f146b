"""Whether recorded results ran the code of today, as `nbkit book build` found it out.

The build judges it (the theme knows nothing of the package's code) and names a file with the answer
in the environment.
"""

from __future__ import annotations

import json
import os
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from renderer.errors import ContentError
from renderer.nodes import element

VARIABLE = "NBKIT_MEASURED"


def state_of(result: str) -> dict[str, Any]:
    """ "stale", "known", "text" and "facts" of a result, by its path from the repository's root."""
    found: dict[str, Any] | None = _known()["results"].get(result)
    if found is None:
        raise ContentError(
            f"whether {result} ran the code of today is not known; build with `nbkit book build`"
        )
    return found


def film_of(digest: str) -> dict[str, Any] | None:
    """What a recorded result says of a film, by the SHA-256 of its bytes; None: nothing does."""
    found: dict[str, Any] | None = _known()["films"].get(digest)
    return found


def measured_line(result: str, facts: str) -> str:
    """A result's file, when and where it was measured, and whether its code is today's."""
    state = state_of(result)
    kind = "measured-stale" if state["stale"] or not state["known"] else "measured-fresh"
    parts = element("code", escape(result), class_="measured-file")
    parts += f" {element('span', escape(facts), class_='measured-facts')}"
    return parts + f" {element('span', escape(state['text']), class_=kind)}"


def results_section(location: str) -> str:
    """A list of the recorded results that a page read; empty if it read none.

    Args:
        location: the page's file, from the project's root.

    """
    files = _known()["pages"].get(location, [])
    if not files:
        return ""
    states = [state_of(file) for file in files]
    fresh = sum(state["known"] and not state["stale"] for state in states)
    stale = sum(state["stale"] for state in states)
    counts = {
        "measured with the code of today": fresh,
        "measured with code that has changed since": stale,
        "whose code was not noted": len(files) - fresh - stale,
    }
    one = "1 recorded result" if len(files) == 1 else f"{len(files)} recorded results"
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    items = "".join(
        element("li", measured_line(file, state["facts"]), class_="measured")
        for file, state in zip(files, states, strict=True)
    )
    intro = element("p", f"This page reads {one}: {said}.")
    details = element(
        "details",
        element("summary", "Which, and what changed") + element("ul", items),
        class_="fold",
    )
    return intro + details


def board_lines() -> list[dict[str, Any]]:
    """The lines of the capstone's board, the best first; empty if the book has none."""
    found: list[dict[str, Any]] = _known().get("board", [])
    return found


def _known() -> dict[str, Any]:
    path = os.environ.get(VARIABLE)
    return _read(path) if path else {"results": {}, "pages": {}, "films": {}}


@cache
def _read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found
