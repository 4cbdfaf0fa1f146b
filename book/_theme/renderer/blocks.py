"""Blocks of prose: paragraphs, headings, lists, tables, figures, formulas, code."""

from html import escape

from renderer.content import Node
from renderer.errors import ContentError
from renderer.films import OPENING, film_html, is_film
from renderer.highlighting import code_html
from renderer.images import picture
from renderer.inline import typeset
from renderer.nodes import class_names, element, handles, opening, without_links
from renderer.page_renderer import Heading, PageRenderer

DEEPEST_HEADING_IN_CONTENTS = 3
DRAWING = "drawing"  # the class of a picture that is put into the page


@handles("root", "include", "legend")
def transparent(node: Node, page: PageRenderer) -> str:
    """A node that adds nothing of its own."""
    return page.children(node)


@handles("paragraph")
def paragraph(node: Node, page: PageRenderer) -> str:
    """A paragraph."""
    return element("p", page.children(node), **page.identity(node))


@handles("heading")
def heading(node: Node, page: PageRenderer) -> str:
    """A heading with its anchor; the page's title is the only one of the first level."""
    depth = min(max(node["depth"], 2), 6)
    body = page.children(node)
    identity = page.identity(node)
    if page.is_preview:
        return element("p", body, class_="preview-title")
    identifier = identity["id"]
    if identifier is None:
        raise ContentError("a heading has no identifier to link to")
    if depth <= DEEPEST_HEADING_IN_CONTENTS and not page.inside("details"):
        page.headings.append(Heading(depth, identifier, without_links(body)))
    anchor = element(
        "a", "#", class_="anchor", href=f"#{identifier}", aria_label="Link to this section"
    )
    return element(f"h{depth}", f"{body} {anchor}", **identity)


@handles("blockquote")
def quotation(node: Node, page: PageRenderer) -> str:
    """A quotation."""
    return element("blockquote", page.children(node), **page.identity(node))


@handles("thematicBreak")
def thematic_break(node: Node, page: PageRenderer) -> str:
    """A rule between two thoughts."""
    return "<hr>"


@handles("comment")
def comment(node: Node, page: PageRenderer) -> str:
    """A remark to other authors, which the reader does not see."""
    return ""


@handles("target")
def target(node: Node, page: PageRenderer) -> str:
    """A place to link to."""
    return element("span", "", **page.identity(node))


@handles("math")
def display_math(node: Node, page: PageRenderer) -> str:
    """A displayed formula with its number, which links to itself if the author labelled it."""
    formula = element("div", typeset(node), class_="math-scroll")
    number, identifier = node.get("enumerator"), node.get("html_id")
    if number and not page.is_preview:
        formula += element(
            "a" if identifier else "span",
            f"({escape(str(number))})",
            class_="equation-number",
            href=f"#{identifier}" if identifier else None,
            aria_label=f"Equation {number}" if identifier else None,
        )
    return element("div", formula, **page.identity(node, "math-display"))


@handles("mathGroup")
def math_group(node: Node, page: PageRenderer) -> str:
    """Several formulas under one number."""
    return element("div", page.children(node), **page.identity(node, "math-group"))


@handles("code")
def code(node: Node, page: PageRenderer) -> str:
    """A block of code."""
    return code_html(
        node.get("value", ""),
        node.get("lang"),
        line_numbers=bool(node.get("showLineNumbers")),
        emphasised_lines=tuple(node.get("emphasizeLines", ())),
        filename=node.get("filename", ""),
    )


@handles("list")
def list_(node: Node, page: PageRenderer) -> str:
    """A list, numbered or not."""
    tag = "ol" if node.get("ordered") else "ul"
    start = node.get("start", 1)
    is_tasks = any(item.get("checked") is not None for item in node["children"])
    return element(
        tag,
        page.children(node),
        start=start if node.get("ordered") and start != 1 else None,
        class_="tasks" if is_tasks else None,
    )


@handles("listItem")
def list_item(node: Node, page: PageRenderer) -> str:
    """An item; the paragraph of a one-line item is unwrapped."""
    children = node.get("children", [])
    box = ""
    if node.get("checked") is not None:
        state = "done" if node["checked"] else "open"
        box = opening(
            "input", type="checkbox", disabled=True, checked=node["checked"], aria_label=state
        )
        box += " "
    head = ""
    if children and children[0]["type"] == "paragraph":
        head, children = page.children(children[0]), children[1:]
    return element("li", box + head + page.render_all(children))


@handles("table")
def table(node: Node, page: PageRenderer) -> str:
    """A table that scrolls sideways on its own when it is wider than the page."""
    rows = node["children"]
    head = [row for row in rows if all(cell.get("header") for cell in row["children"])]
    leading = 0
    while leading < len(rows) and rows[leading] in head:
        leading += 1
    body = ""
    if leading:
        body += element("thead", page.render_all(rows[:leading]))
    body += element("tbody", page.render_all(rows[leading:]))
    return element("div", element("table", body, **page.identity(node)), class_="table-scroll")


@handles("tableRow")
def table_row(node: Node, page: PageRenderer) -> str:
    """A row."""
    return element("tr", page.children(node))


@handles("tableCell")
def table_cell(node: Node, page: PageRenderer) -> str:
    """A cell."""
    return element(
        "th" if node.get("header") else "td",
        page.children(node),
        class_=f"align-{node['align']}" if node.get("align") else None,
        colspan=node.get("colspan"),
        rowspan=node.get("rowspan"),
    )


@handles("definitionList")
def definition_list(node: Node, page: PageRenderer) -> str:
    """Terms with their explanations."""
    return element("dl", page.children(node))


@handles("definitionTerm")
def definition_term(node: Node, page: PageRenderer) -> str:
    """A term."""
    return element("dt", page.children(node), **page.identity(node))


@handles("definitionDescription")
def definition_description(node: Node, page: PageRenderer) -> str:
    """What a term means."""
    return element("dd", page.children(node))


@handles("glossary")
def glossary(node: Node, page: PageRenderer) -> str:
    """The book's terms."""
    return element("div", page.children(node), class_="glossary")


@handles("container")
def container(node: Node, page: PageRenderer) -> str:
    """A figure, table, program or quotation with its caption.

    A figure of class `drawing` holds a drawing, one of class `opening` a film that plays by itself:
    `image` says what they are.
    """
    handed_on = " ".join(name for name in class_names(node) if name in (DRAWING, OPENING))
    if handed_on:
        inside = [
            {**child, "class": handed_on} if child.get("type") == "image" else child
            for child in node["children"]
        ]
        node = {**node, "children": inside}
    return element("figure", page.children(node), **page.identity(node, f"figure-{node['kind']}"))


@handles("caption")
def caption(node: Node, page: PageRenderer) -> str:
    """What a figure shows."""
    return element("figcaption", page.children(node))


@handles("captionNumber")
def caption_number(node: Node, page: PageRenderer) -> str:
    """The number of a figure."""
    return element("span", page.children(node), class_="caption-number") + " "


@handles("image")
def image(node: Node, page: PageRenderer) -> str:
    """A picture. It must be a file of the book and say in words what it shows.

    A drawing (SVG) of class `drawing` is put into the page itself, so that its colours follow
    light and dark mode; a film must be one that a recorded result names; any other picture stands
    on light paper in both.
    """
    url, alternative = node.get("url") or "", (node.get("alt") or "").strip()
    if not alternative:
        raise ContentError(f"the picture {node.get('urlSource', url)!r} has no alt text")
    if not url.startswith("/") or url not in page.book.files:
        raise ContentError(
            f"the picture {node.get('urlSource', url)!r} is not a file of the book; "
            "pages may load nothing from outside"
        )
    if DRAWING in class_names(node):
        return inline_drawing(page.file(url).decode(), alternative)
    content = page.file(url)
    if is_film(content):
        return film_html(page.href(url), content, class_names(node))
    return picture(
        page.href(url),
        alternative,
        content,
        classes=class_names(node),
        width=node.get("width"),
    )


def inline_drawing(svg: str, alternative: str) -> str:
    """An SVG file as an element of the page, named by its alt text."""
    start = svg.find("<svg")
    if start < 0:
        raise ContentError("a picture of class drawing is not an SVG file")
    name = f' role="img" aria-label="{escape(alternative)}" class="drawing"'
    return svg[start : start + 4] + name + svg[start + 4 :].rstrip()
