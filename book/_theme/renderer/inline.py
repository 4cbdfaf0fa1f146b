"""Text and what stands within it."""

from html import escape

from renderer.content import Node
from renderer.errors import ContentError
from renderer.nodes import element, handles
from renderer.page_renderer import PageRenderer

PLAIN_TAGS = {
    "strong": "strong",
    "emphasis": "em",
    "delete": "del",
    "underline": "u",
    "subscript": "sub",
    "superscript": "sup",
    "keyboard": "kbd",
}


@handles("text")
def text(node: Node, page: PageRenderer) -> str:
    """Plain text."""
    return escape(node["value"], quote=False)


@handles(*PLAIN_TAGS)
def plain_tag(node: Node, page: PageRenderer) -> str:
    """Emphasis and its kind: one HTML element each."""
    return element(PLAIN_TAGS[node["type"]], page.children(node))


@handles("smallcaps")
def smallcaps(node: Node, page: PageRenderer) -> str:
    """Small capitals."""
    return element("span", page.children(node), class_="smallcaps")


@handles("inlineCode")
def inline_code(node: Node, page: PageRenderer) -> str:
    """Code within a sentence."""
    return element("code", escape(node["value"], quote=False))


@handles("inlineMath")
def inline_math(node: Node, page: PageRenderer) -> str:
    """Mathematics within a sentence, typeset by mystmd."""
    return element("span", typeset(node), class_="math-inline")


@handles("abbreviation")
def abbreviation(node: Node, page: PageRenderer) -> str:
    """An abbreviation with its long form."""
    return element("abbr", page.children(node), title=node.get("title"))


@handles("break")
def line_break(node: Node, page: PageRenderer) -> str:
    """A forced end of line."""
    return "<br>"


@handles("span")
def span(node: Node, page: PageRenderer) -> str:
    """Text with a class."""
    return element("span", page.children(node), **page.identity(node))


@handles("link")
def link(node: Node, page: PageRenderer) -> str:
    """A link to a page, a file or an outside address."""
    url = node.get("url") or ""
    body = page.children(node) or escape(url, quote=False)
    if page.inside("link") or page.inside("card"):
        return body
    attributes: dict[str, str | bool | None] = {"href": page.href(url)}
    if node.get("static"):
        attributes["download"] = str(node.get("urlSource") or url).rsplit("/", 1)[-1]
    elif node.get("internal") and not page.is_preview:
        attributes["data_preview"] = page.preview_key(url.partition("#")[0], "")
    elif url.startswith(("http:", "https:")):
        attributes |= {"class_": "external", "rel": "noopener"}
    return element("a", body, **attributes)


def typeset(node: Node) -> str:
    """The HTML of a formula; one that could not be typeset is an error of the page."""
    if node.get("error") or not node.get("html"):
        reason = node.get("message") or "it could not be typeset"
        raise ContentError(f"formula {node.get('value', '')!r}: {reason}")
    return str(node["html"])
