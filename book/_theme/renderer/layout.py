"""Arrangement of content: divisions, tabs, grids, cards."""

from html import escape

from renderer.board import BOARD_CLASS, board
from renderer.content import Node
from renderer.errors import ContentError
from renderer.interactive import INTERACTIVE_CLASS, interactive_figure
from renderer.nodes import class_names, element, handles, opening
from renderer.page_renderer import PageRenderer


@handles("div")
def division(node: Node, page: PageRenderer) -> str:
    """A division with a class; `interactive` is an interactive figure, `board` a board."""
    if INTERACTIVE_CLASS in class_names(node):
        return interactive_figure(node, page)
    if BOARD_CLASS in class_names(node):
        return board(node, page)
    return element("div", page.children(node), **page.identity(node))


@handles("tabSet")
def tab_set(node: Node, page: PageRenderer) -> str:
    """Tabs, made of radio buttons: they work by keyboard and without a script."""
    page.tab_sets += 1
    name = f"{'preview-' if page.is_preview else ''}tabs-{page.tab_sets}"
    parts = ""
    for number, item in enumerate(node["children"]):
        if item["type"] != "tabItem":
            raise ContentError(f"a tab-set holds tab-items, not {item['type']!r}")
        identifier = f"{name}-{number}"
        parts += opening("input", type="radio", name=name, id=identifier, checked=number == 0)
        parts += element("label", escape(item.get("title", "")), for_=identifier)
        parts += element("div", page.children(item), class_="tab-panel")
    return element("div", parts, class_="tabs", role="group", aria_label="Alternatives")


@handles("grid")
def grid(node: Node, page: PageRenderer) -> str:
    """Cards side by side, as many as the page is wide, up to the number the author gave."""
    columns = max(node.get("columns") or [2])
    return element(
        "div", page.children(node), style=f"--columns:{columns}", **page.identity(node, "grid")
    )


@handles("card")
def card(node: Node, page: PageRenderer) -> str:
    """A card; the whole of it is a link if the author gave one."""
    body = page.children(node)
    identity = page.identity(node, "card")
    if node.get("url"):
        return element("a", body, href=page.href(node["url"]), **identity)
    return element("div", body, **identity)


@handles("cardTitle")
def card_title(node: Node, page: PageRenderer) -> str:
    """The title of a card."""
    return element("p", page.children(node), class_="card-title")


@handles("header")
def card_header(node: Node, page: PageRenderer) -> str:
    """The head of a card."""
    return element("div", page.children(node), class_="card-header")


@handles("footer")
def card_footer(node: Node, page: PageRenderer) -> str:
    """The foot of a card."""
    return element("div", page.children(node), class_="card-footer")
