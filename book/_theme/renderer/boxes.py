"""Boxes: admonitions, exercises, solutions, theorems, folded parts, the run card."""

from html import escape

from renderer.content import Node
from renderer.errors import ContentError
from renderer.nodes import class_names, element, handles, plain_text, without_links
from renderer.page_renderer import PageRenderer

RUN_CARD_CLASS = "run-card"
KINDS = {
    "attention",
    "caution",
    "danger",
    "error",
    "hint",
    "important",
    "note",
    "seealso",
    "tip",
    "warning",
}


@handles("admonition")
def admonition(node: Node, page: PageRenderer) -> str:
    """A remark in a box, folded if it has the class dropdown."""
    if RUN_CARD_CLASS in class_names(node):
        return run_card(node, page)
    kind = node.get("kind") or next((c for c in class_names(node) if c in KINDS), "note")
    title, body = _parts(node)
    return _box(node, page, f"box box-{kind}", page.children(title) if title else "", body)


@handles("exercise")
def exercise(node: Node, page: PageRenderer) -> str:
    """A numbered exercise."""
    return _numbered_box(node, page, "box box-exercise", "Exercise")


@handles("solution")
def solution(node: Node, page: PageRenderer) -> str:
    """The solution of an exercise."""
    title, body = _parts(node)
    return _box(node, page, "box box-solution", page.children(title) if title else "Solution", body)


@handles("proof")
def proof(node: Node, page: PageRenderer) -> str:
    """A theorem, definition, algorithm, proof and their kind."""
    kind = node.get("kind") or "proof"
    if kind == "proof":  # a proof needs no number
        node = {**node, "enumerator": None}
    return _numbered_box(node, page, f"box box-proof box-{kind}", kind.capitalize())


@handles("details")
def details(node: Node, page: PageRenderer) -> str:
    """A folded part."""
    children = list(node.get("children", []))
    if not children or children[0]["type"] != "summary":
        raise ContentError("a dropdown needs a title")
    summary, *body = children
    return element(
        "details",
        element("summary", page.children(summary))
        + element("div", page.render_all(body), class_="box-body"),
        open=bool(node.get("open")),
        **page.identity(node, "fold"),
    )


@handles("aside")
def aside(node: Node, page: PageRenderer) -> str:
    """A note beside the text."""
    title, body = _parts(node)
    head = element("p", page.children(title), class_="aside-title") if title else ""
    return element(
        "aside", head + page.render_all(body), role="note", **page.identity(node, "margin")
    )


def run_card(node: Node, page: PageRenderer) -> str:
    """The header card of a chapter: what it takes to run it, as pairs of name and value."""
    _, body = _parts(node)
    if [child["type"] for child in body] != ["definitionList"]:
        raise ContentError("a run card holds one definition list (a name, then ': ' and its value)")
    items = ""
    for name, value in _run_card_pairs(body[0]["children"]):
        pair = element("dt", escape(name)) + element("dd", page.render_all(value))
        items += element("div", pair, class_=f"run-card-{name.lower().replace(' ', '-')}")
    return element("aside", element("dl", items), class_=RUN_CARD_CLASS, aria_label="Run card")


def _run_card_pairs(children: list[Node]) -> list[tuple[str, list[Node]]]:
    """Names and values of a run card.

    Without empty lines between its entries, Markdown takes each further name for the last line of
    the value above it; such a line is a name here.
    """
    pairs: list[tuple[str, list[Node]]] = []
    name = ""
    for child in children:
        if child["type"] == "definitionTerm":
            name = plain_text(child).strip()
            continue
        value, following = _split_last_line(child.get("children", []))
        if not name:
            raise ContentError(
                "a value of the run card has no name; put an empty line between its entries"
            )
        pairs.append((name, value))
        name = following
    if name:
        raise ContentError(f"the entry {name!r} of the run card has no value")
    return pairs


def _split_last_line(nodes: list[Node]) -> tuple[list[Node], str]:
    """The nodes without the last line of their text, and that line."""
    if not nodes or nodes[-1]["type"] != "text" or "\n" not in nodes[-1]["value"]:
        return nodes, ""
    value, _, line = nodes[-1]["value"].rpartition("\n")
    return [*nodes[:-1], {"type": "text", "value": value}], line.strip()


def _parts(node: Node) -> tuple[Node | None, list[Node]]:
    """The title of a box and its body."""
    children = list(node.get("children", []))
    if children and children[0]["type"] == "admonitionTitle":
        return children[0], children[1:]
    return None, children


def _numbered_box(node: Node, page: PageRenderer, classes: str, name: str) -> str:
    title, body = _parts(node)
    number = node.get("enumerator")
    head = element("span", escape(f"{name} {number}" if number else name), class_="box-number")
    if title:
        head += " " + element("span", page.children(title), class_="box-name")
    return _box(node, page, classes, head, body)


def _box(node: Node, page: PageRenderer, classes: str, title: str, body: list[Node]) -> str:
    identity = page.identity(node, *classes.split())
    content = element("div", page.render_all(body), class_="box-body")
    if "dropdown" in class_names(node) and not page.is_preview:
        return element("details", element("summary", without_links(title)) + content, **identity)
    head = element("p", title, class_="box-title") if title else ""
    return element("div", head + content, **identity)
