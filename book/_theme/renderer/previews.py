"""What a reader sees on pointing at a reference to another page."""

from __future__ import annotations

from html import escape

from renderer.content import Node, Page
from renderer.nodes import element, plain_text
from renderer.page_renderer import PageRenderer

BLOCKS_AFTER_A_HEADING = 2
# These carry the identifier of what they point to.
POINTERS = {"crossReference", "link", "cite", "footnoteReference", "captionNumber"}


def preview_templates(page: PageRenderer) -> str:
    """One inert `<template>` for each target on another page that this page refers to."""
    html = ""
    for target, key in page.preview_keys.items():
        url, _, identifier = target.partition("#")
        other = page.book.pages_by_url[url.rstrip("/") or "/"]
        html += element("template", _preview(page, other, identifier), id=key)
    return html


def _preview(page: PageRenderer, other: Page, identifier: str) -> str:
    source = element("p", escape(other.title), class_="preview-source")
    if not identifier:
        about = other.frontmatter.get("description") or other.frontmatter.get("subtitle") or ""
        return source + (element("p", escape(about)) if about else "")
    nodes = _find(other.tree, identifier)
    renderer = PageRenderer(page.book, page.page, is_preview=True, source=other)
    html = renderer.render_all(nodes)
    page.errors += renderer.errors
    return source + html


def _find(tree: Node, identifier: str) -> list[Node]:
    """The nodes to show for an identifier: the target, and what follows a heading or a term."""
    siblings = tree.get("children", [])
    for place, node in enumerate(siblings):
        if node["type"] in POINTERS:
            continue
        if identifier in (node.get("html_id"), node.get("identifier")):
            if node["type"] == "heading":
                return [node, *_following(siblings[place + 1 :], BLOCKS_AFTER_A_HEADING)]
            if node["type"] == "definitionTerm":
                return [{"type": "definitionList", "children": siblings[place : place + 2]}]
            return [node]
        found = _find(node, identifier)
        if found:
            return found
    return []


def _following(nodes: list[Node], count: int) -> list[Node]:
    following = []
    for node in nodes[:count]:
        if node["type"] == "heading" or not (plain_text(node).strip() or node["type"] == "math"):
            break
        following.append(node)
    return following
