"""From the content server to a folder of HTML; called by mystmd (see template.yml).

`mystmd build --html` sets CONTENT_CDN (address of the content server) and BUILD_DIRECTORY (where to
write).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import renderer.blocks
import renderer.boxes
import renderer.inline
import renderer.layout
import renderer.notebook
import renderer.outputs
import renderer.references  # noqa: F401  (these modules fill the table of node types)
from renderer.assembly import assemble, environment
from renderer.bundles import version, write_assets
from renderer.content import Book, http_fetcher, load_book
from renderer.errors import BuildError
from renderer.navigation import Navigation, build_navigation, numbering_fault, title_fault
from renderer.offline import outside_requests
from renderer.search import search_index


def main(arguments: list[str]) -> int:
    """Render the book once."""
    if arguments:
        print("This theme writes static pages; serve them with `make serve`.", file=sys.stderr)
        return 1
    server = os.environ["CONTENT_CDN"].rstrip("/")
    try:
        pages = render_site(load_book(http_fetcher(server)), Path(os.environ["BUILD_DIRECTORY"]))
    except BuildError as error:
        print(f"The book was not built.\n{error}", file=sys.stderr)
        return 1
    print(f"Rendered {pages} pages.")
    return 0


def render_site(book: Book, folder: Path) -> int:
    """Write the site; every page is tried before the faults of all are reported together."""
    navigation = build_navigation(book)
    templates = environment()
    rendered, faults = {}, []
    for page in book.pages:
        html, errors = assemble(page, book, navigation, templates, version())
        faults += errors
        faults += [fault for fault in (numbering_fault(page), title_fault(page)) if fault]
        faults += [f"{page.location}: loads {url} from outside" for url in outside_requests(html)]
        rendered[page.path] = html
    if faults:
        raise BuildError("\n".join(dict.fromkeys(faults)))
    for path, html in rendered.items():
        _write(folder / path, html.encode())
    for path in book.files:
        _write(folder / "files" / path.lstrip("/"), book.fetch(path))
    write_assets(folder / "assets")
    _write(folder / "pages.json", json.dumps(reading_order(book, navigation), indent=1).encode())
    _write(folder / "assets" / "search-index.js", search_index(book, navigation).encode())
    return len(rendered)


def reading_order(book: Book, navigation: Navigation) -> list[dict[str, str]]:
    """Title, file and part of every page, for the PDF and the tests."""
    parts = [navigation.part_of(page) for page in book.pages]
    return [
        {"title": page.title, "path": page.path, "part": part.title if part else ""}
        for page, part in zip(book.pages, parts, strict=True)
    ]


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
