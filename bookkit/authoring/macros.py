"""The book's TeX macros, written out, for whatever reads a notebook without our settings.

`myst.yml` names the macros. JupyterLab, editors and the sites that show notebooks never read that
file, and show an error in place of each formula. So a notebook holds the formulas with every macro
written out; its text page keeps them short. A changed cell carries what its author wrote, so that
nothing is lost on the way back.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from bookkit.authoring.prose import DIRECTIVE, FENCE, closes, holds_code
from nbkit.errors import UserError
from nbkit.runs.sha256 import text_digest

WRITTEN, SHOWN = "written", "shown"
KEY = "nbkit"
MOST_ROUNDS = 8  # a macro may stand in another one
_INLINE = re.compile(
    r"(?P<role>\{math\})?(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
)


def macros_of(root: Path) -> dict[str, str]:
    """The macros of a checkout's `myst.yml`, name (with its backslash) to TeX; {} without the file.

    Raises:
        UserError: a macro takes arguments, which nothing here writes out.
    """
    path = root / "myst.yml"
    return dict(_macros(path, path.stat().st_mtime_ns)) if path.is_file() else {}


@lru_cache(maxsize=8)
def _macros(path: Path, _changed: int) -> tuple[tuple[str, str], ...]:
    project = yaml.safe_load(path.read_text(encoding="utf-8")).get("project") or {}
    macros = {str(name): str(tex) for name, tex in (project.get("math") or {}).items()}
    for name, tex in macros.items():
        if "#" in tex:
            raise UserError(
                f"myst.yml: the macro {name} takes arguments, which notebooks cannot show; write "
                "its formulas out"
            )
    return tuple(macros.items())


def written_out(text: str, macros: Mapping[str, str]) -> str:
    """A cell's Markdown with each macro replaced by its TeX; code stays as it is.

    Raises:
        UserError: a macro stands in itself.
    """
    if not any(name in text for name in macros):
        return text
    lines, fences = [], list[tuple[str, bool]]()
    for line in text.split("\n"):
        fence = FENCE.match(line)
        in_code = any(is_code for _, is_code in fences)
        if fence and fences and closes(fence, fences[-1][0]):
            fences.pop()
        elif fence and not in_code:
            directive = DIRECTIVE.match(fence.group(2))
            is_math = directive is not None and directive.group(1) == "math"
            fences.append((fence.group(1), holds_code(fence) and not is_math))
        lines.append(line if in_code else _line(line, macros))
    return "\n".join(lines)


def _line(line: str, macros: Mapping[str, str]) -> str:
    pieces, end = [], 0
    for found in _INLINE.finditer(line):
        pieces.append(_replaced(line[end : found.start()], macros))
        pieces.append(_replaced(found.group(), macros) if found["role"] else found.group())
        end = found.end()
    return "".join([*pieces, _replaced(line[end:], macros)])


def _replaced(tex: str, macros: Mapping[str, str]) -> str:
    names = "|".join(re.escape(name) for name in sorted(macros, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\\)(?:{names})(?![A-Za-z])")
    for _ in range(MOST_ROUNDS):
        tex, count = pattern.subn(lambda found: macros[found.group()], tex)
        if not count:
            return tex
    raise UserError(f"myst.yml: a macro of {tex[:60]!r} stands in itself; write it without")


def show_in(cell: dict[str, Any], shown: str) -> None:
    """Give a Markdown cell the text that it shows, and keep beside it what its author wrote."""
    written = cell["source"]
    if shown == written:
        return
    kept = {WRITTEN: written, SHOWN: text_digest(shown)}
    cell["metadata"] = {**cell["metadata"], KEY: kept}
    cell["source"] = shown


def written_in(source: str, metadata: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the author of a cell wrote, and the cell's own metadata.

    A cell that was edited since it was written out is taken as it stands.

    Args:
        source: what the cell shows.
        metadata: of the cell.
    """
    kept = metadata.get(KEY)
    if not isinstance(kept, dict) or WRITTEN not in kept:
        return source, dict(metadata)
    own = {key: value for key, value in metadata.items() if key != KEY}
    is_untouched = text_digest(source.strip("\n")) == kept[SHOWN]
    return (str(kept[WRITTEN]) if is_untouched else source), own
