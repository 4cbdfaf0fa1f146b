"""Lines of code that a page cuts off at its right edge, where a reader would have to scroll."""

import re
from collections.abc import Iterator
from pathlib import Path

from bookkit.authoring.blocks import blocks_of
from bookkit.authoring.repository import relative
from bookkit.authoring.stamp import Finding

# Cells and programs; what a command prints, or a file of data, keeps its lines.
SHOWN = re.compile(r"\s*[`~:]{3,}\s*(?:\{code-(?:cell|block)\}|(?:python|bash|sh|yaml|toml)\b)")
WIDTH = 100  # characters that fit into a block on a window of 1280 pixels


def width_findings(root: Path, page: Path) -> Iterator[Finding]:
    """Find the lines of a page's cells and programs that are too long to be seen whole.

    Args:
        root: the checkout.
        page: a text page.
    """
    name = relative(page, root)
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks_of("\n".join(lines)):
        if block.kind not in {"cell", "code"} or not SHOWN.match(lines[block.line - 1]):
            continue
        if "hide-input" in block.tags:  # folded: who opens it has asked for the details
            continue
        for number in range(block.line, block.line + _height(lines, block.line)):
            length = len(lines[number - 1])
            if length > WIDTH:
                problem = f"this line of code has {length} characters"
                yield Finding(name, problem, f"break it; {WIDTH} are seen", number)


def _height(lines: list[str], first: int) -> int:
    """Lines from the opening fence of a cell up to its closing one."""
    opening = lines[first - 1].strip()
    mark = opening[: len(opening) - len(opening.lstrip("`~:"))]
    rest = lines[first:]
    return 1 + next((at for at, line in enumerate(rest) if line.strip() == mark), len(rest))
