"""Citations, cross references, footnotes."""

from html import escape

from renderer.content import Node
from renderer.errors import ContentError
from renderer.nodes import element, handles
from renderer.page_renderer import PageRenderer


@handles("crossReference")
def cross_reference(node: Node, page: PageRenderer) -> str:
    """A reference to an equation, figure, section, exercise, term …, with a preview of it."""
    if not node.get("resolved"):
        raise ContentError(f"the reference {node.get('label', '')!r} leads nowhere")
    identifier = node.get("html_id") or node["identifier"]
    body = page.children(node)
    if page.inside("card") or page.inside("summary"):
        return body
    if page.is_preview:
        url = node.get("url") or (page.source.url if page.source else page.page.url)
        return element("a", body, class_="reference", href=page.href(f"{url}#{identifier}"))
    if node.get("remote"):
        href = page.href(f"{node['url']}#{identifier}")
        key = page.preview_key(node["url"], identifier)
        return element("a", body, class_="reference", href=href, data_preview=key)
    return element("a", body, class_="reference", href=f"#{identifier}", data_preview=True)


@handles("citeGroup")
def citation_group(node: Node, page: PageRenderer) -> str:
    """Citations that stand together."""
    if node.get("kind") == "parenthetical":
        return f"({'; '.join(page.render(child) for child in node['children'])})"
    return ", ".join(page.render(child) for child in node["children"])


@handles("cite")
def citation(node: Node, page: PageRenderer) -> str:
    """A citation, linked to the entry in the page's list."""
    label = node["label"]
    if label not in page.book.citations:
        raise ContentError(f"the citation {label!r} is not in book/references.bib")
    if page.is_preview:  # the page that shows the preview may not have this entry
        return page.children(node)
    return element(
        "a",
        page.children(node),
        class_="citation",
        href=f"#{reference_id(label)}",
        data_preview=True,
    )


@handles("footnoteReference")
def footnote_reference(node: Node, page: PageRenderer) -> str:
    """The number of a footnote."""
    if page.is_preview:
        return ""
    number = escape(str(node["enumerator"]))
    link = element(
        "a",
        number,
        href=f"#footnote-{node['identifier']}",
        id=f"footnote-reference-{node['identifier']}",
        aria_label=f"Footnote {number}",
        data_preview=True,
    )
    return element("sup", link, class_="footnote-reference")


@handles("footnoteDefinition")
def footnote_definition(node: Node, page: PageRenderer) -> str:
    """The text of a footnote, which stands at the end of the page."""
    page.footnotes[node["identifier"]] = (str(node["enumerator"]), page.children(node))
    return ""


@handles("bibliography")
def bibliography(node: Node, page: PageRenderer) -> str:
    """The list of what the page cites; on a page that cites nothing, of the whole book."""
    page.has_bibliography = True
    if page.is_preview:
        return ""
    return reference_list(page.page.citations or page.book.citations)


def reference_list(entries: dict[str, str]) -> str:
    """A list of works, in the order of their authors' names."""
    items = sorted(entries.items(), key=lambda item: item[1].lower())
    body = "".join(element("li", html, id=reference_id(label)) for label, html in items)
    return element("ul", body, class_="references")


def reference_id(label: str) -> str:
    """The anchor of an entry."""
    return f"reference-{label}"
