"""The root of the checkout that a program runs in."""

from pathlib import Path

from nbkit.errors import UserError


def find_root(start: Path | None = None) -> Path:
    """Find the checkout that holds `start` (default: the working folder).

    Raises:
        UserError: no parent folder holds both a `pyproject.toml` and an `nbkit` folder.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "nbkit").is_dir():
            return folder
    raise UserError(f"{start} is not inside the book's repository; change into it and try again")
