"""The book as mystmd serves it: configuration, pages, files."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

Node = dict[str, Any]
Fetch = Callable[[str], bytes]

CONNECTION_ATTEMPTS = 40
SECONDS_BETWEEN_ATTEMPTS = 0.1
REQUEST_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Page:
    """One page: its front matter, its syntax tree and where it will stand in the site."""

    slug: str
    url: str  # "/" for the landing page, "/notebooks/reinforce" for a chapter
    location: str  # the source file, relative to the project: "notebooks/11_reinforce.ipynb"
    frontmatter: dict[str, Any]
    tree: Node
    citations: dict[str, str] = field(default_factory=dict)  # label -> formatted entry (HTML)

    @property
    def title(self) -> str:
        """The title as plain text."""
        return str(self.frontmatter.get("title") or self.slug)

    @property
    def short_title(self) -> str:
        """The title for the contents and the browser tab."""
        return str(self.frontmatter.get("short_title") or self.title)

    @property
    def path(self) -> str:
        """The page's file in the site, relative to its root."""
        folder = self.url.strip("/")
        return f"{folder}/index.html" if folder else "index.html"

    @property
    def to_root(self) -> str:
        """Relative path from the page's folder to the root of the site."""
        depth = len(PurePosixPath(self.url).parts) - 1
        return "../" * depth or "./"


@dataclass(frozen=True)
class Entry:
    """One line of the table of contents; a line without a page is the title of a part."""

    level: int
    title: str
    page: Page | None


@dataclass(frozen=True)
class Book:
    """Everything that the renderer knows."""

    title: str
    config: dict[str, Any]
    pages: list[Page]  # reading order, the landing page first
    entries: list[Entry]
    files: frozenset[str]  # paths below the content server's root
    fetch: Fetch

    @cached_property
    def pages_by_url(self) -> dict[str, Page]:
        """Pages by their address."""
        return {page.url: page for page in self.pages}

    @cached_property
    def citations(self) -> dict[str, str]:
        """Every entry that a page of the book cites, by label."""
        return {label: html for page in self.pages for label, html in page.citations.items()}

    @property
    def repository(self) -> str:
        """Address of the public repository, or an empty string."""
        return str(self.config.get("github") or "").rstrip("/")


def http_fetcher(server: str) -> Fetch:
    """Return a function that reads a path from mystmd's content server.

    The server may still be starting: refused connections are tried again for a few seconds.
    """

    def fetch(path: str) -> bytes:
        for attempt in range(CONNECTION_ATTEMPTS):
            try:
                with urllib.request.urlopen(
                    server + path, timeout=REQUEST_TIMEOUT_SECONDS
                ) as reply:
                    return bytes(reply.read())
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:
                if attempt == CONNECTION_ATTEMPTS - 1:
                    raise
                time.sleep(SECONDS_BETWEEN_ATTEMPTS)
        raise AssertionError("unreachable")

    return fetch


def load_book(fetch: Fetch) -> Book:
    """Read the whole book from the content server."""
    project = json.loads(fetch("/config.json"))["projects"][0]
    index_slug = project["index"]
    landing = _load_page(fetch, index_slug, "/")
    pages, entries = [landing], [Entry(1, landing.short_title, landing)]
    for line in project["pages"]:
        page = None
        if line.get("slug"):
            page = _load_page(fetch, line["slug"], url_of_slug(line["slug"]))
            pages.append(page)
        title = page.short_title if page else line.get("title", "")
        entries.append(Entry(line.get("level", 1), title, page))
    return Book(
        title=project.get("title") or landing.title,
        config=project,
        pages=pages,
        entries=entries,
        files=frozenset(json.loads(fetch("/public.json"))),
        fetch=fetch,
    )


def url_of_slug(slug: str) -> str:
    """Address of a page: "notebooks.reinforce" becomes "/notebooks/reinforce"."""
    return "/" + re.sub(r"\.index$", "", slug).replace(".", "/")


def _load_page(fetch: Fetch, slug: str, url: str) -> Page:
    data = json.loads(fetch(f"/content/{slug}.json"))
    cited = data.get("references", {}).get("cite", {}).get("data", {})
    return Page(
        slug=slug,
        url=url,
        location=data["location"].lstrip("/"),
        frontmatter=data["frontmatter"],
        tree=data["mdast"],
        citations={label: entry["html"] for label, entry in cited.items()},
    )
