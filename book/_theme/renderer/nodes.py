"""The table from node type to the function that renders it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from renderer.content import Node

if TYPE_CHECKING:
    from renderer.page_renderer import PageRenderer

Handler = Callable[[Node, "PageRenderer"], str]

HANDLERS: dict[str, Handler] = {}
LINK_TAG = re.compile(r"</?a\b[^>]*>")


def handles(*node_types: str) -> Callable[[Handler], Handler]:
    """Enter the decorated function into the table; a second entry for a type is an error."""

    def register(handler: Handler) -> Handler:
        for node_type in node_types:
            if node_type in HANDLERS:
                raise ValueError(f"two functions render the node type {node_type!r}")
            HANDLERS[node_type] = handler
        return handler

    return register


def element(tag: str, body: str, **attributes: str | int | bool | None) -> str:
    """An HTML element; `body` is HTML, attributes are escaped, empty ones are left out.

    Underscores become hyphens, and `class_` stands for `class`.
    """
    return f"{opening(tag, **attributes)}{body}</{tag}>"


def opening(tag: str, **attributes: str | int | bool | None) -> str:
    """The opening tag of an element (or a void element)."""
    text = ""
    for name, value in attributes.items():
        if value is None or value is False or value == "":
            continue
        name = name.rstrip("_").replace("_", "-")
        text += f" {name}" if value is True else f' {name}="{escape(str(value))}"'
    return f"<{tag}{text}>"


def plain_text(node: Node) -> str:
    """The text of a node without markup."""
    if "children" in node:
        return "".join(plain_text(child) for child in node["children"])
    return str(node.get("value") or "")


def without_links(html: str) -> str:
    """HTML with its links unwrapped, for where a link may not stand (in a link, in a summary)."""
    return LINK_TAG.sub("", html)


def class_names(node: Node) -> list[str]:
    """The classes that the author gave."""
    return str(node.get("class") or "").split()
