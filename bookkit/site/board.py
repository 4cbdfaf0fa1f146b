"""The board of the capstone, as the theme shows it: read when the book is built."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from bookkit.builds.capstone.board import BOARD, FOLDER, board, digest_of
from nbkit.errors import UserError


def board_lines(project: Path) -> list[dict[str, Any]]:
    """What a page shows of each entry of the capstone's board; none where a book has no board.

    Returns:
        Of each entry "name", "method", "accuracy" with its "half_width", "tokens" and
        "processor_seconds" a pupil, "facts" (when and on what it was measured) and "changed":
        whether the file is another one than was measured.

    Raises:
        UserError: the board cannot be read, or an entry has no file.

    """
    path = project / BOARD
    if not path.is_file():
        return []
    entries = board(path)
    try:
        sources = [(project / FOLDER / f"{one.name}.py").read_text("utf-8") for one in entries]
    except OSError as error:
        raise UserError(f"an entry of {BOARD} has no file: {error}") from error
    return [
        {
            "name": entry.name,
            "method": entry.method,
            "accuracy": entry.accuracy,
            "half_width": entry.half_width,
            "tokens": fmean(entry.tokens),
            "processor_seconds": fmean(entry.processor_seconds),
            "facts": f"{entry.date}, {entry.processor}, torch {entry.versions.get('torch', '?')}",
            "changed": digest_of(source) != entry.digest,
        }
        for entry, source in zip(entries, sources, strict=True)
    ]
