"""Style and scripts: small files in the theme, few files in the site."""

from __future__ import annotations

import hashlib
import shutil
from functools import lru_cache
from pathlib import Path

THEME = Path(__file__).parent.parent
SCRIPTS = (
    "search_engine",
    "theme",
    "contents",
    "code",
    "previews",
    "search",
    "highlight",
    "zoom",
    "films",
    "print",
)
TOOLKIT = THEME / "interactive" / "toolkit.js"


def bundles() -> dict[str, str]:
    """The files below `assets/` that are put together from the theme's parts."""
    styles = sorted((THEME / "styles").glob("*.css"))
    files = {
        "style.css": _joined(styles),
        "book.js": _joined([THEME / "scripts" / f"{name}.js" for name in SCRIPTS]),
        "interactive/toolkit.js": _joined([TOOLKIT]),
    }
    for name in figure_names():
        folder = THEME / "interactive" / name
        files[f"interactive/{name}.js"] = _joined([folder / "model.js", folder / "figure.js"])
    return files


def figure_names() -> list[str]:
    """Names of the interactive figures that the theme holds."""
    return sorted(folder.name for folder in (THEME / "interactive").glob("*/"))


@lru_cache(maxsize=1)
def version() -> str:
    """A short hash of style and scripts, so that browsers drop stale copies."""
    text = "".join(f"{name}\n{content}" for name, content in sorted(bundles().items()))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_assets(folder: Path) -> None:
    """Write the bundles, and copy fonts and icons."""
    shutil.copytree(THEME / "static", folder, dirs_exist_ok=True)
    for name, content in bundles().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def _joined(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)
