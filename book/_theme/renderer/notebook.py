"""Cells: code with its outputs, folded or left out by the tags of the cell."""

from renderer.content import Node
from renderer.errors import ContentError
from renderer.nodes import element, handles
from renderer.page_renderer import PageRenderer

CODE_CELL = "notebook-code"
FOLD_TITLES = {"code": "Show the code", "outputs": "Show the output"}


@handles("block")
def block(node: Node, page: PageRenderer) -> str:
    """A cell of a notebook, or a part of a prose page."""
    visibility = node.get("visibility", "show")
    if visibility == "remove":
        return ""
    if node.get("kind") != CODE_CELL:
        body = page.children(node)
        classes = node.get("class")
        return element("div", body, class_=classes) if classes else body
    parts = "".join(_part(child, page) for child in node["children"])
    if not parts:
        return ""
    if visibility == "hide":
        parts = _fold("Show the cell", parts)
    elif visibility != "show":
        raise ContentError(f"unknown visibility {visibility!r}")
    return element("div", parts, class_="cell", id=None if page.is_preview else node.get("html_id"))


def _part(node: Node, page: PageRenderer) -> str:
    """The input or the outputs of a cell."""
    visibility = node.get("visibility", "show")
    if visibility == "remove":
        return ""
    body = page.render(node)
    if body and visibility == "hide":
        return _fold(FOLD_TITLES.get(node["type"], "Show more"), body)
    return body


def _fold(title: str, body: str) -> str:
    return element("details", element("summary", title) + body, class_="fold fold-code")
