"""What the tests of the site share: the renderer, a page to render into, built sites."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_tools import required_chromium
from filelock import FileLock
from site_books import THEME, copy_fixture_book, copy_real_book

from bookkit.site.build import build_site

sys.path.insert(0, str(THEME))

import renderer.main  # noqa: F401  (fills the table of node types)
from invented_book import make_book
from renderer.content import Node
from renderer.page_renderer import PageRenderer

pytest.register_assert_rewrite("browsing", "page_checks")


@pytest.fixture
def make_renderer() -> Callable[..., PageRenderer]:
    """A renderer of the chapter on returns of the invented book."""

    def make(**options: bool) -> PageRenderer:
        book = make_book()
        return PageRenderer(book, book.pages[1], **options)

    return make


@pytest.fixture
def render(make_renderer: Callable[..., PageRenderer]) -> Callable[..., str]:
    """HTML of one node; an error of the page fails the test."""

    def render_node(node: Node, **options: bool) -> str:
        page = make_renderer(**options)
        html = page.render(node)
        assert page.errors == []
        return html

    return render_node


@pytest.fixture
def error_of(make_renderer: Callable[..., PageRenderer]) -> Callable[[Node], str]:
    """The one error that rendering a node must give."""

    def render_badly(node: Node) -> str:
        page = make_renderer()
        page.render(node)
        assert len(page.errors) == 1, page.errors
        return page.errors[0]

    return render_badly


@pytest.fixture(scope="session")
def fixture_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site of the book of every construct."""
    return built_once(tmp_path_factory, "fixture_site", copy_fixture_book)


@pytest.fixture(scope="session")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site of the real book."""
    return built_once(tmp_path_factory, "real_site", copy_real_book)


def built_once(
    factory: pytest.TempPathFactory, name: str, copy_book: Callable[[Path], Path]
) -> Path:
    """Build a site, or take what another process of this test run has built."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    shared = factory.getbasetemp() if alone else factory.getbasetemp().parent
    note = shared / f"{name}.txt"
    with FileLock(f"{note}.lock"):
        if not note.exists():
            note.write_text(str(build_site(copy_book(factory.mktemp(name)))), encoding="utf-8")
    return Path(note.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser."""
    from browsing import sync_api

    from bookkit.site.browser import sandbox_arguments

    program = required_chromium()
    arguments = [*sandbox_arguments(), "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def constructs_site(fixture_site: Path) -> Iterator[Any]:
    """The book of every construct, served."""
    from browsing import serve_folder

    yield from serve_folder("fixture_site", fixture_site)


@pytest.fixture(scope="module")
def book_site(real_site: Path) -> Iterator[Any]:
    """The real book, served."""
    from browsing import serve_folder

    yield from serve_folder("real_site", real_site)


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a fresh context; every complaint of every page fails the test."""
    from browsing import WIDE, Watch

    contexts, watches = [], []

    def open_url(url: str, **options: object) -> Any:
        context = chromium.new_context(**{"viewport": WIDE, "color_scheme": "light", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(300_000)  # a busy machine is slow; nothing here waits in vain
        watch = Watch()
        watch.attach(page)
        watches.append(watch)
        page.watch = watch
        page.goto(url)
        return page

    yield open_url
    for context in contexts:
        context.close()
    assert [complaint for watch in watches for complaint in watch.complaints] == []
