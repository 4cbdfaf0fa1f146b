"""The picture of the rooms of nbkit: drawn from the order that `pyproject.toml` fixes."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bookkit.authoring.reach.modules import imported_targets
from bookkit.site.pictures.svg import arrow, box, drawing, words
from nbkit.runs.root import ROOT

PACKAGE, TOOLS = "nbkit", "bookkit"
# Above all rooms: what a reader opens, and what is built around it.
USERS = ("notebooks", "studies", "benchmarks", "cluster_scripts")
WIDTH, ROW, GAP, LEFT, TOP = 720.0, 34.0, 10.0, 12.0, 10.0
MATHEMATICS = "the mathematics"
# In book/architecture.md the table stands between these two comments.
BEGIN, END = "% rooms: written by `nbkit book pictures`", "% end of the rooms"


@dataclass(frozen=True)
class Room:
    """A subpackage of nbkit, or a module that stands alone."""

    name: str
    purpose: str
    imports: tuple[str, ...]


def layers(root: Path = ROOT) -> list[list[str]]:
    """The rooms from the top down, those of one floor together; the modules of mathematics last.

    Raises:
        KeyError: `pyproject.toml` holds no contract of layers.

    """
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (order,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    floors = [[name.strip() for name in layer.split("|")] for layer in order]
    rooms = [[name for name in floor if _is_room(root, name)] for floor in floors]
    pure = [name for floor in floors for name in floor if not _is_room(root, name)]
    shown = sorted(name for name in pure if not name.startswith("_"))
    return [*(floor for floor in rooms if floor), shown]


@cache
def rooms(root: Path = ROOT) -> dict[str, Room]:
    """Every room of nbkit by its name, with its purpose and the rooms that it imports."""
    names = [name for floor in layers(root)[:-1] for name in floor]
    found = {}
    for name in names:
        files = _files(root, name)
        trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
        used = {place for tree in trees for place in _imported(tree)} - {name}
        known = [other for other in names if other in used]
        pure = [MATHEMATICS] if used - set(names) else []
        purpose = (ast.get_docstring(trees[0]) or "").partition("\n")[0]
        found[name] = Room(name, purpose, (*known, *pure))
    return found


def picture() -> str:
    """Draw the floors, the tools of the book beside them, and the direction of imports."""
    floors = layers()
    shapes = []
    body = WIDTH * 0.76
    y = TOP
    shapes += _row(y, list(USERS), body, "surface", "ink")
    for floor in floors[:-1]:
        y += ROW + GAP
        if len(floor) == 1:
            shapes += _told(y, rooms()[floor[0]], body)
        else:
            shapes += _row(y, floor, body, "none", "build")
    y += ROW + GAP
    shapes.append(box(LEFT, y, body, ROW, "none", "scale"))
    shapes.append(words(LEFT + body / 2, y + ROW / 2 + 3, ", ".join(floors[-1]), "ink", 9.5))
    height = y + ROW + TOP
    side = LEFT + body + 3 * GAP
    shapes.append(box(side, TOP, WIDTH - side - LEFT, height - 2 * TOP, "none", "break"))
    middle = side + (WIDTH - side - LEFT) / 2
    shapes.append(words(middle, TOP + 22, "bookkit", "ink", 13))
    lines = (
        "runs and stamps",
        "the pages, builds",
        "the site, judges",
        "exercises and",
        "builds, submits",
        "the jobs",
    )
    shapes += [words(middle, TOP + 48 + 15 * i, line, "ink", 10.5) for i, line in enumerate(lines)]
    shapes.append(arrow((side, height / 2), (side - 2.4 * GAP, height / 2), "break"))
    x = LEFT + body + GAP
    shapes.append(arrow((x, TOP), (x, height - TOP), "ink"))
    return drawing(*shapes, width=WIDTH, height=height)


def table() -> str:
    """The rooms as a table of MyST: name, purpose, what it imports."""
    rows = ["| Room | What it holds | Imports |", "|---|---|---|"]
    for room in rooms().values():
        used = ", ".join(f"`{n}`" if n != MATHEMATICS else n for n in room.imports) or "nothing"
        rows.append(f"| `{PACKAGE}.{room.name}` | {room.purpose} | {used} |")
    pure = ", ".join(f"`{name}`" for name in layers()[-1])
    rows.append(f"| {MATHEMATICS} | Tensors in, tensors out, no state: {pure}. | nothing |")
    for name, purpose in tools().items():
        rows.append(f"| `{TOOLS}.{name}` | {purpose} | `{PACKAGE}` |")
    return "\n".join(rows)


def tools(root: Path = ROOT) -> dict[str, str]:
    """Every room of the book's tools by its name, with its purpose."""
    found = {}
    for path in sorted((root / TOOLS).glob("*/__init__.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[path.parent.name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def _row(y: float, names: list[str], width: float, fill: str, stroke: str) -> list[str]:
    each = (width - GAP * (len(names) - 1)) / len(names)
    shapes = []
    for number, name in enumerate(names):
        x = LEFT + number * (each + GAP)
        shapes.append(box(x, y, each, ROW, fill, stroke))
        shapes.append(words(x + each / 2, y + ROW / 2 + 4, name, "ink", 12))
    return shapes


def _told(y: float, room: Room, width: float) -> list[str]:
    """One room on its floor, with what it holds."""
    return [
        box(LEFT, y, width, ROW, "none", "build"),
        words(LEFT + GAP, y + ROW / 2 + 4, room.name, "ink", 12, anchor="start"),
        words(LEFT + 90, y + ROW / 2 + 3.5, room.purpose, "ink", 9, anchor="start"),
    ]


def with_table(text: str) -> str:
    """The page of the architecture with the table of today.

    Raises:
        ValueError: the page lacks the two comments.

    """
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page lacks the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def _is_room(root: Path, name: str) -> bool:
    """Whether it is a package, or a module of tools and not of mathematics."""
    return (root / PACKAGE / name).is_dir() or name in {"plots", "errors"}


def _files(root: Path, name: str) -> list[Path]:
    folder = root / PACKAGE / name
    if not folder.is_dir():
        return [folder.with_suffix(".py")]
    return [folder / "__init__.py", *sorted(set(folder.rglob("*.py")) - {folder / "__init__.py"})]


def _imported(tree: ast.Module) -> set[str]:
    """The rooms and modules of nbkit that a module imports, for types alone too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in imported_targets(node, PACKAGE):
                parts = f"{target.module}.{target.attribute or ''}".split(".")
                found |= {parts[1]} if parts[0] == PACKAGE else set()
    return found - {""}
