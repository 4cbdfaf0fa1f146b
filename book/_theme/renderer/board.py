"""The board of the capstone: a table of what methods have reached, from the file that holds it.

A page writes a division of the class `board` around the sentence that stands there without this
theme. `nbkit book build` reads the file and hands its lines over, as it does for recorded results.
"""

from html import escape
from typing import Any

from renderer.content import Node
from renderer.errors import ContentError
from renderer.measured import board_lines
from renderer.nodes import element
from renderer.page_renderer import PageRenderer

BOARD_CLASS = "board"
HEADS = ("place", "entry", "held-out accuracy", "tokens", "processor s", "measured")


def board(node: Node, page: PageRenderer) -> str:
    """The table, the best entry first."""
    lines = board_lines()
    if not lines:
        raise ContentError("the board has no entries; build the book with `nbkit book build`")
    head = element("tr", "".join(element("th", escape(name)) for name in HEADS))
    rows = "".join(_row(place, line) for place, line in enumerate(lines, start=1))
    table = element("table", element("thead", head) + element("tbody", rows))
    return element("div", table, class_="table-scroll")


def _row(place: int, line: dict[str, Any]) -> str:
    entry = element("strong", escape(line["name"])) + f": {escape(line['method'])}"
    if line["changed"]:
        entry += " " + element("em", "(its file has changed since)", class_="measured-stale")
    cells = (
        str(place),
        entry,
        f"{100 * line['accuracy']:.1f} % ± {100 * line['half_width']:.1f}",
        f"{line['tokens']:,.0f}",
        f"{line['processor_seconds']:.0f}",
        escape(line["facts"]),
    )
    return element("tr", "".join(element("td", cell) for cell in cells))
