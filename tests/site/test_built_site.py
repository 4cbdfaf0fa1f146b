"""The whole way: sources through Jupyter Book and the renderer to a site."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from bs4 import BeautifulSoup
from renderer.nodes import HANDLERS
from renderer.offline import outside_requests
from site_books import REPOSITORY

pytestmark = pytest.mark.slow
LARGEST_FIGURE_BYTES = 150_000
CHAPTERS_OF_THE_BOOK = 18


@pytest.fixture(params=["fixture_site", "real_site"])
def site(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def html_files(site: Path) -> list[Path]:
    files = sorted(site.rglob("*.html"))
    assert files
    return files


class Anchors(HTMLParser):
    """The ids of a page and what it links to or loads."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self._templates = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fields = dict(attrs)
        self._templates += tag == "template"
        if fields.get("id") and (not self._templates or tag == "template"):
            self.ids.append(str(fields["id"]))
        self.links += [str(fields[name]) for name in ("href", "src") if fields.get(name)]

    def handle_endtag(self, tag: str) -> None:
        self._templates -= tag == "template"


@cache
def anchors(path: Path) -> Anchors:
    """What a page holds, read once for all tests."""
    parser = Anchors()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {path: anchors(path) for path in html_files(site)}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            address, fragment = unquote(urldefrag(link)[0].partition("?")[0]), urldefrag(link)[1]
            target = (path.parent / address).resolve() if address else path
            if not target.is_file():
                broken.append(f"{path}: {link}: no such file")
                continue
            if fragment and target in pages and unquote(fragment) not in pages[target].ids:
                broken.append(f"{path}: {link}: no such place")
    assert broken == []


def test_ids_are_unique(site: Path) -> None:
    for path in html_files(site):
        ids = anchors(path).ids
        assert len(ids) == len(set(ids)), path


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    for path in site.rglob("*"):
        if path.suffix == ".html":
            assert outside_requests(path.read_text(encoding="utf-8")) == []
        if path.suffix == ".css":
            style = path.read_text(encoding="utf-8")
            assert outside_requests(f"<style>{style}</style>") == []


def test_previews_exist(site: Path) -> None:
    for path in html_files(site):
        html = path.read_text(encoding="utf-8")
        wanted = set(re.findall(r'data-preview="([^"]+)"', html))
        assert wanted <= set(re.findall(r'<template id="([^"]+)"', html)), path


def test_figures_are_small(real_site: Path) -> None:
    for path in (real_site / "files").rglob("*"):
        if path.suffix in {".png", ".svg", ".jpg", ".jpeg", ".gif"}:
            assert path.stat().st_size <= LARGEST_FIGURE_BYTES, path


def test_site_holds_every_page_of_the_contents(real_site: Path) -> None:
    listed = re.findall(r"file: (\S+)", (REPOSITORY / "myst.yml").read_text(encoding="utf-8"))
    pages = json.loads((real_site / "pages.json").read_text(encoding="utf-8"))
    assert len(pages) == len(listed)
    for page in pages:
        assert (real_site / page["path"]).is_file()


# The page of every construct


def node_types(tree: dict) -> set[str]:
    return {tree["type"]}.union(*(node_types(child) for child in tree.get("children", [])))


@pytest.fixture(scope="session")
def fixture_trees(fixture_site: Path) -> dict[str, dict]:
    contents = fixture_site.parent / "site" / "content"
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))["mdast"]
        for path in contents.glob("*.json")
    }


def test_fixture_holds_every_node_type_of_the_book(fixture_trees: dict, real_site: Path) -> None:
    found = set().union(*map(node_types, fixture_trees.values()))
    real = set().union(
        *(
            node_types(json.loads(path.read_text(encoding="utf-8"))["mdast"])
            for path in (real_site.parent / "site" / "content").glob("*.json")
        )
    )
    assert real <= found
    assert found - {"tabItem", "summary", "admonitionTitle", "output"} <= set(HANDLERS)


@pytest.fixture
def constructs(fixture_site: Path) -> str:
    return (fixture_site / "constructs" / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def outputs(fixture_site: Path) -> str:
    return (fixture_site / "notebook" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "expected",
    [
        "<h1>Every construct</h1>",
        '<p class="subtitle">What an author may write</p>',
        '<p class="page-place">Part I. Constructs',
        'aria-current="page"',
        '<span class="katex-mathml"><math',
        'aria-label="Equation 1">(1)</a>',
        '<span class="box-number">Exercise 1</span> <span class="box-name">Returns</span>',
        '<span class="box-number">Theorem 1</span>',
        "<summary>Solution to Exercise\xa01</summary>",
        '<span class="caption-number">Figure\xa01:</span>',
        '<li id="reference-suttonbarto2018">',
        '<li id="footnote-note" value="1">',
        'rel="next" href="../notebook/index.html"',
        'rel="prev" href="../index.html"',
        'href="https://github.com/example/example/edit/main/constructs.md"',
        '<script src="../assets/interactive/ppo-clip.js',
    ],
)
def test_constructs(constructs: str, expected: str) -> None:
    assert expected in constructs


@pytest.mark.parametrize(
    "expected",
    [
        '<aside class="run-card" aria-label="Run card">',
        '<pre class="stream stdout">first line\nsecond line</pre>',
        '<pre class="stream stderr">train: 100%|##########| 3/3</pre>',
        '<span class="ansi-green-intense-fg ansi-bold">green</span>',
        "red &lt;tag&gt;",
        '<table border="1" class="dataframe">',
        "A <em>Markdown</em> output",
        '<span class="record-value">0.934</span>',
        'alt="A grey ramp from dark to light"',
        'width="240" height="90"',
        '<pre class="stream error">',
        "<summary>Show the code</summary>",
        "<summary>Show the output</summary>",
        "<summary>Show the cell</summary>",
        "only the output",
        "kept",
        'href="http://localhost:8888/lab/tree/notebook.ipynb"',
        'download="notebook.ipynb"',
        'edit/main/notebook.md"',
        '<h2 id="references">References',
    ],
)
def test_outputs(outputs: str, expected: str) -> None:
    assert expected in outputs


@pytest.mark.parametrize(
    "secret", ["SECRET_CELL", "SECRET_INPUT", "SECRET_OUTPUT", "SECRET_STDERR", "33%"]
)
def test_what_tags_remove_is_gone_and_is_not_searched(
    fixture_site: Path, outputs: str, secret: str
) -> None:
    assert secret not in outputs
    index = (fixture_site / "assets" / "search-index.js").read_text(encoding="utf-8")
    assert secret not in index


def test_preview_of_another_page_has_its_links_turned_to_this_page(outputs: str) -> None:
    templates = BeautifulSoup(outputs, "html.parser").find_all("template")
    figures = [figure for template in templates for figure in template.find_all("figure")]
    assert [figure.img["src"].rpartition("-")[0] for figure in figures] == ["../files/loop"]
    assert "id" not in figures[0].attrs


def test_remarks_do_not_show(constructs: str) -> None:
    assert "a comment that must not show" not in constructs


def test_search_index_holds_text_output_and_headings_but_no_progress_bar(
    fixture_site: Path,
) -> None:
    script = (fixture_site / "assets" / "search-index.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("window.bookSearchIndex=").removesuffix(";\n"))
    sections = {(page, heading): text for page, heading, _, text in index["sections"]}
    number = [path for _, path, _ in index["pages"]].index("notebook/index.html")
    assert "quokka gradient" in sections[number, "Streams"]
    assert "first line second line" in sections[number, "Streams"]
    assert "100%|" not in script
    assert (number, "Errors and folds") in sections


# The landing page


def chapters_listed() -> set[int]:
    text = (REPOSITORY / "myst.yml").read_text(encoding="utf-8")
    return {int(number) for number in re.findall(r"file: notebooks/(\d\d)_\w+\.ipynb", text)}


def test_landing_page_links_the_chapters_that_exist_and_no_others(real_site: Path) -> None:
    page = BeautifulSoup((real_site / "index.html").read_text(encoding="utf-8"), "html.parser")
    cards = page.select(".prose .card")
    linked, planned = set(), set()
    for card in cards:
        number = int(card.select_one(".card-title").text.partition(".")[0])
        (linked if card.name == "a" else planned).add(number)
        assert card.select_one("svg[role=img][aria-label]"), number
        assert ("Planned" in card.select_one(".card-footer").text) == (card.name == "div"), number
    assert len(cards) == len(linked) + len(planned) == CHAPTERS_OF_THE_BOOK
    assert linked == chapters_listed(), "book/index.md: give each chapter of myst.yml a :link:"
