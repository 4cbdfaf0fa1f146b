"""Where things stand in a checkout: its root, its pages, and how files are written safely."""

import os
import re
import tempfile
from pathlib import Path

from nbkit.errors import UserError

PAGE_FOLDERS = ("notebooks", "solutions", "book")
SKIPPED_FOLDERS = {"_build", "_theme", "node_modules", ".ipynb_checkpoints"}
NUMBER = re.compile(r"(\d\d)_")


def text_pages(root: Path) -> list[Path]:
    """List the text pages that are executed: MyST files whose front matter names `jupytext`."""
    return [path for path in markdown_files(root, PAGE_FOLDERS) if _is_executed(path)]


def markdown_files(root: Path, folders: tuple[str, ...]) -> list[Path]:
    """List the Markdown files under some folders of the checkout, sorted, build folders skipped."""
    return _files(root, folders, "*.md")


def notebooks(root: Path, folders: tuple[str, ...] = PAGE_FOLDERS) -> list[Path]:
    """List the notebooks under some folders of the checkout, sorted, build folders skipped."""
    return _files(root, folders, "*.ipynb")


def chapter_number(path: Path) -> int | None:
    """Return the number that a page's name begins with (`11_reinforce.md` gives 11), or None."""
    found = NUMBER.match(path.name)
    return int(found.group(1)) if found else None


def require_chapter(root: Path, chapter: int | None) -> None:
    """Check the number of a chapter that a user typed; None stands for every chapter.

    Raises:
        UserError: no page, solution or exercise has that number.
    """
    files = [
        *markdown_files(root, PAGE_FOLDERS),
        *notebooks(root, (*PAGE_FOLDERS, "exercises")),
    ]
    known = {number for path in files if (number := chapter_number(path)) is not None}
    if chapter is not None and chapter not in known:
        numbers = ", ".join(map(str, sorted(known))) or "none"
        raise UserError(f"there is no chapter {chapter}; the chapters are: {numbers}")


def relative(path: Path, root: Path) -> str:
    """Name a file as the messages do: its path from the root, with forward slashes."""
    path = path.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a crash leaves either the old file or the new one, never half.

    The permissions are the old file's where there was one, else those of any new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _files(root: Path, folders: tuple[str, ...], pattern: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (root / folder).rglob(pattern)
        if not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
    )


def _is_executed(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    if not text.startswith("---\n"):
        return False
    header = text[4:].partition("\n---")[0]
    return re.search(r"^jupytext:", header, flags=re.MULTILINE) is not None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
