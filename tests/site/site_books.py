"""The two books that the tests build: that of every construct, and the real one."""

from __future__ import annotations

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
THEME = REPOSITORY / "book" / "_theme"
FIXTURE_BOOK = Path(__file__).parent / "fixtures" / "book"
SOURCE_FOLDERS = ("book", "notebooks", "exercises", "solutions", "studies/results/films")


def copy_fixture_book(folder: Path) -> Path:
    """A copy of the book of every construct, which finds the theme where it is."""
    project = folder / "book"
    shutil.copytree(FIXTURE_BOOK, project, ignore=shutil.ignore_patterns("_build"))
    config = project / "myst.yml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("../../../../book/_theme", THEME.as_posix()), encoding="utf-8")
    return project


def copy_real_book(folder: Path) -> Path:
    """A copy of the real book's sources, so that a test never touches the reader's site."""
    ignored = shutil.ignore_patterns("_build", ".ipynb_checkpoints", "__pycache__")
    shutil.copy(REPOSITORY / "myst.yml", folder)
    for name in SOURCE_FOLDERS:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    return folder
