"""Pages whose text was edited since they were executed: the site shows what ran, not the text."""

from __future__ import annotations

from pathlib import Path

from bookkit.authoring.page import find_pages
from bookkit.authoring.stamp import edited_side
from nbkit.errors import UserError


def behind_lines(project: Path) -> list[str]:
    """One sentence for each page of a book whose stored outputs are behind its text.

    Args:
        project: folder of ``myst.yml``.
    """
    lines = []
    for page in find_pages(project):
        try:
            side = edited_side(page) if page.notebook.is_file() else "none"
        except UserError as error:
            lines.append(str(error))
            continue
        if side in ("text", "both"):
            lines.append(
                f"{page.name} was edited since it was executed, and the site shows it as it was: "
                f"run `nbkit execute {page.name}`."
            )
    return lines
