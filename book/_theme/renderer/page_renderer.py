"""Walks the tree of one page and collects what the page needs around its body."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from renderer.content import Book, Node, Page
from renderer.errors import ContentError
from renderer.nodes import HANDLERS, class_names


@dataclass(frozen=True)
class Heading:
    """A heading of the page, for the page contents."""

    depth: int
    identifier: str
    html: str


@dataclass
class PageRenderer:
    """Renders nodes in the context of one page: links are relative to that page."""

    book: Book
    page: Page
    is_preview: bool = False  # a preview carries no ids, so that ids stay unique
    source: Page | None = None  # the page that a preview is taken from
    headings: list[Heading] = field(default_factory=list)
    footnotes: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> (number, HTML)
    preview_keys: dict[str, str] = field(default_factory=dict)  # target -> id of its template
    interactive: set[str] = field(default_factory=set)  # names of interactive figures
    errors: list[str] = field(default_factory=list)
    has_bibliography: bool = False
    tab_sets: int = 0
    _ancestors: list[Node] = field(default_factory=list)

    def render(self, node: Node) -> str:
        """HTML of a node; what cannot be rendered is noted in `errors`, naming page and node."""
        handler = HANDLERS.get(node["type"])
        self._ancestors.append(node)
        try:
            if handler is None:
                raise ContentError(
                    "the renderer does not know this node type; add a function for it to "
                    "book/_theme/renderer, or write the page without it"
                )
            return handler(node, self)
        except ContentError as error:
            self.errors.append(f"{self.page.location}: {self._where()}: {error}")
            return ""
        finally:
            self._ancestors.pop()

    def children(self, node: Node) -> str:
        """HTML of a node's children."""
        return "".join(self.render(child) for child in node.get("children", []))

    def render_all(self, nodes: list[Node]) -> str:
        """HTML of several nodes."""
        return "".join(self.render(node) for node in nodes)

    def identity(self, node: Node, *classes: str) -> dict[str, str | None]:
        """The `id` and `class` attributes of a node."""
        identifier = node.get("html_id") or node.get("identifier")
        names = [*classes, *class_names(node)]
        return {
            "id": None if self.is_preview else identifier,
            "class_": " ".join(dict.fromkeys(name for name in names if name)) or None,
        }

    def href(self, url: str) -> str:
        """A link as it must stand in this page's HTML; addresses of the site become relative."""
        if not url.startswith("/"):
            return url
        address, hash_mark, fragment = url.partition("#")
        if address in self.book.files:
            return self.page.to_root + "files" + address
        target = self.book.pages_by_url.get(address.rstrip("/") or "/")
        if target is None:
            raise ContentError(f"the link {url} leads to no page or file of the book")
        return self.page.to_root + target.path + hash_mark + fragment

    def file(self, path: str) -> bytes:
        """The content of a file of the book."""
        return self.book.fetch(path)

    def preview_key(self, url: str, identifier: str) -> str:
        """The id of the template that previews a target on another page."""
        target = f"{url}#{identifier}"
        return self.preview_keys.setdefault(target, f"preview-{len(self.preview_keys) + 1}")

    def inside(self, node_type: str) -> bool:
        """Whether the node being rendered stands inside a node of that type."""
        return any(node["type"] == node_type for node in self._ancestors[:-1])

    def _where(self) -> str:
        """Type and line of the node being rendered, and the types around it."""
        node = self._ancestors[-1]
        line = next(
            (
                ancestor["position"]["start"]["line"]
                for ancestor in reversed(self._ancestors)
                if ancestor.get("position", {}).get("start")
            ),
            None,
        )
        cell = next(
            (a["html_id"] for a in self._ancestors if a.get("html_id") and a["type"] == "block"),
            None,
        )
        path = " > ".join(ancestor["type"] for ancestor in self._ancestors)
        place = f"node {node['type']!r}"
        if cell:
            place += f", cell {cell}"
        if line is not None:
            unit = (
                "line of its cell"
                if PurePosixPath(self.page.location).suffix == ".ipynb"
                else "line"
            )
            place += f", {unit} {line}"
        return f"{place} ({path})"
