"""A small invented book: a landing page, a chapter on returns, a chapter on PPO, two files."""

from __future__ import annotations

from renderer.content import Book, Entry, Node, Page

PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20"><path d="M0 0"/></svg>'


def make_page(url: str = "/notebooks/returns", **changes: object) -> Page:
    """A page of the invented book."""
    fields: dict = {
        "slug": "notebooks.returns",
        "url": url,
        "location": "notebooks/11_returns.ipynb",
        "frontmatter": {"title": "Returns"},
        "tree": {"type": "root", "children": []},
        "citations": {"williams1992": "Williams, R. J. (1992). <i>Machine Learning</i>."},
    }
    return Page(**{**fields, **changes})


def make_book(other_tree: Node | None = None, **config: str) -> Book:
    """The book; `other_tree` is what its second chapter holds."""
    landing = make_page("/", slug="index", location="book/index.md", citations={})
    chapter = make_page()
    other = make_page(
        "/notebooks/ppo",
        slug="notebooks.ppo",
        location="notebooks/12_ppo.ipynb",
        frontmatter={"title": "PPO", "description": "Many steps from one batch."},
        tree=other_tree or {"type": "root", "children": []},
    )
    entries = [
        Entry(1, "Returns", landing),
        Entry(1, "Policy gradients", None),
        Entry(2, "Returns", chapter),
        Entry(2, "PPO", other),
    ]
    return Book(
        title="A book",
        config=config,
        pages=[landing, chapter, other],
        entries=entries,
        files=frozenset({"/loop.svg", "/data.csv", "/11_returns-1.ipynb"}),
        fetch=lambda path: PICTURE,
    )
