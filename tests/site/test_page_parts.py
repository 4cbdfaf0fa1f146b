"""What stands around the text of a page: contents, previews, links to the source, search."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from invented_book import make_book, make_page
from renderer.assembly import assemble, environment, source_links
from renderer.content import Book, Entry, Page, load_book, url_of_slug
from renderer.errors import BuildError
from renderer.main import render_site
from renderer.navigation import (
    build_navigation,
    chapter_number,
    numbering_fault,
    title_fault,
)
from renderer.page_renderer import PageRenderer
from renderer.previews import preview_templates
from renderer.search import page_sections


def text(value: str) -> dict:
    return {"type": "text", "value": value}


def paragraph(value: str) -> dict:
    return {"type": "paragraph", "children": [text(value)]}


def heading(value: str, identifier: str) -> dict:
    return {"type": "heading", "depth": 2, "html_id": identifier, "children": [text(value)]}


def root(*children: dict) -> dict:
    return {"type": "root", "children": [{"type": "block", "children": list(children)}]}


def whole_page(book: Book, page: Page) -> str:
    html, errors = assemble(page, book, build_navigation(book), environment(), "v1")
    assert errors == []
    return html


# The contents of the book


def contents(*lines: tuple[int, str, str | None]) -> list[Entry]:
    return [
        Entry(level, title, make_page(f"/{title}", location=location) if location else None)
        for level, title, location in lines
    ]


def test_parts_hold_their_pages_and_chapters_their_exercises() -> None:
    entries = contents(
        (1, "start", "book/index.md"),
        (1, "Policy gradients", None),
        (2, "reinforce", "notebooks/11_reinforce.ipynb"),
        (3, "exercises", "exercises/11_reinforce.ipynb"),
        (3, "solutions", "solutions/11_reinforce.ipynb"),
        (2, "ppo", "notebooks/12_ppo.ipynb"),
        (1, "Appendix", None),
        (2, "glossary", "book/glossary.md"),
        (1, "contributing", "book/contributing.md"),
    )
    book = Book("", {}, [e.page for e in entries if e.page], entries, frozenset(), lambda _: b"")
    parts = build_navigation(book).parts
    assert [part.title for part in parts] == ["", "Policy gradients", "Appendix", ""]
    assert [item.number for item in parts[1].items] == [11, 12]
    below = [child.page.location for child in parts[1].items[0].children]
    assert below == ["exercises/11_reinforce.ipynb", "solutions/11_reinforce.ipynb"]
    assert parts[3].items[0].page.location == "book/contributing.md"


def test_previous_and_next_follow_the_reading_order() -> None:
    book = make_book()
    navigation = build_navigation(book)
    landing, chapter, other = book.pages
    assert navigation.previous_and_next(landing) == (None, chapter)
    assert navigation.previous_and_next(chapter) == (landing, other)
    assert navigation.previous_and_next(other) == (chapter, None)


@pytest.mark.parametrize(
    ("location", "number"),
    [("notebooks/11_returns.ipynb", 11), ("notebooks/01_score.ipynb", 1), ("book/a.md", None)],
)
def test_chapter_number_is_that_of_the_file(location: str, number: int | None) -> None:
    assert chapter_number(make_page(location=location)) == number


def test_chapter_without_a_number_is_refused() -> None:
    with pytest.raises(BuildError, match=r"notebooks/ppo\.ipynb: a chapter's file is named"):
        chapter_number(make_page(location="notebooks/ppo.ipynb"))


def test_numbering_of_equations_must_be_that_of_the_chapter() -> None:
    right = {"title": "x", "numbering": {"enumerator": {"enumerator": "11.%s"}}}
    wrong = {"title": "x", "numbering": {"enumerator": {"enumerator": "12.%s"}}}
    assert numbering_fault(make_page(frontmatter=right)) == ""
    assert "enumerator: 11.%s" in numbering_fault(make_page(frontmatter=wrong))
    assert "(found: None)" in numbering_fault(make_page())
    assert numbering_fault(make_page(location="book/a.md")) == ""


def test_title_taken_from_the_middle_of_the_text_is_refused() -> None:
    guessed = {"title": "Loss", "content_includes_title": True}
    assert "the page has no title" in title_fault(make_page(frontmatter=guessed))
    assert title_fault(make_page()) == ""


@pytest.mark.parametrize(
    ("slug", "url"),
    [("notebooks.reinforce", "/notebooks/reinforce"), ("book.part.index", "/book/part")],
)
def test_address_of_a_page(slug: str, url: str) -> None:
    assert url_of_slug(slug) == url


@pytest.mark.parametrize(
    ("url", "path", "to_root"),
    [
        ("/", "index.html", "./"),
        ("/about", "about/index.html", "../"),
        ("/notebooks/ppo", "notebooks/ppo/index.html", "../../"),
    ],
)
def test_place_of_a_page(url: str, path: str, to_root: str) -> None:
    page = make_page(url)
    assert (page.path, page.to_root) == (path, to_root)


# The page


def test_current_page_is_marked_and_others_linked() -> None:
    book = make_book()
    html = whole_page(book, book.pages[1])
    assert '<a href="../../notebooks/returns/index.html" aria-current="page">' in html
    assert '<a href="../../notebooks/ppo/index.html">' in html
    assert "Chapter 11</p>" in html


def test_titles_are_escaped() -> None:
    page = make_page(frontmatter={"title": "<b>KL & you</b>", "subtitle": "a < b"})
    book = Book("A book", {}, [page], [Entry(1, page.title, page)], frozenset(), lambda _: b"")
    html = whole_page(book, page)
    assert "<h1>&lt;b&gt;KL &amp; you&lt;/b&gt;</h1>" in html
    assert "a &lt; b" in html


def test_run_card_moves_to_the_header() -> None:
    pairs = [
        {"type": "definitionTerm", "children": [text("Device")]},
        {"type": "definitionDescription", "children": [text("CPU")]},
    ]
    card = {
        "type": "admonition",
        "class": "run-card",
        "children": [{"type": "definitionList", "children": pairs}],
    }
    page = make_page(tree=root(paragraph("before"), card, paragraph("after")))
    book = Book("A book", {}, [page], [Entry(1, page.title, page)], frozenset(), lambda _: b"")
    html = whole_page(book, page)
    assert html.count('class="run-card"') == 1
    assert html.index('class="run-card"') < html.index('class="prose"') < html.index("before")
    assert "after" in html


def test_references_are_listed_once() -> None:
    cite = {"type": "cite", "label": "williams1992", "children": [text("W")]}
    for extra in ([], [{"type": "bibliography"}]):
        page = make_page(tree=root({"type": "paragraph", "children": [cite]}, *extra))
        book = Book("A book", {}, [page], [Entry(1, page.title, page)], frozenset(), lambda _: b"")
        assert whole_page(book, page).count('id="reference-williams1992"') == 1


# Links to the source


def test_links_of_a_chapter_without_a_public_repository() -> None:
    exports = [{"url": "/11_returns-1.ipynb"}]
    links = source_links(make_page(frontmatter={"title": "x", "exports": exports}), make_book())
    assert links == {
        "master": "notebooks/11_returns.md",
        "notebook": "notebooks/11_returns.ipynb",
        "edit": "",
        "download": "../../files/11_returns-1.ipynb",
        "filename": "11_returns.ipynb",
    }


def test_exercises_are_edited_in_their_solutions() -> None:
    page = make_page(location="exercises/11_returns.ipynb")
    links = source_links(page, make_book(github="https://github.com/a/b"))
    assert links["master"] == "solutions/11_returns.md"
    assert links["edit"] == "https://github.com/a/b/edit/main/solutions/11_returns.md"
    assert links["notebook"] == "exercises/11_returns.ipynb"


def test_prose_has_no_notebook() -> None:
    links = source_links(make_page(location="book/about.md"), make_book())
    assert (links["master"], links["notebook"]) == ("book/about.md", "")


# Previews


def preview(tree: dict, identifier: str) -> str:
    book = make_book(tree)
    page = PageRenderer(book, book.pages[1])
    page.preview_key("/notebooks/ppo", identifier)
    html = preview_templates(page)
    assert page.errors == []
    return html


def test_preview_of_a_page_is_its_description() -> None:
    assert preview(root(), "") == (
        '<template id="preview-1"><p class="preview-source">PPO</p>'
        "<p>Many steps from one batch.</p></template>"
    )


def test_preview_of_a_heading_is_what_follows_up_to_the_next() -> None:
    tree = root(heading("Clip", "clip"), paragraph("one"), heading("Next", "n"), paragraph("two"))
    html = preview(tree, "clip")
    assert '<p class="preview-title">Clip</p><p>one</p></template>' in html


def test_preview_of_a_term_is_its_explanation() -> None:
    term = {"type": "definitionTerm", "html_id": "term-kl", "children": [text("KL")]}
    meaning = {"type": "definitionDescription", "children": [text("a divergence")]}
    html = preview(root({"type": "definitionList", "children": [term, meaning]}), "term-kl")
    assert "<dl><dt>KL</dt><dd>a divergence</dd></dl>" in html


def test_preview_is_of_the_target_and_not_of_what_points_to_it() -> None:
    pointer = {
        "type": "crossReference",
        "identifier": "eq-a",
        "html_id": "eq-a",
        "resolved": True,
        "children": [text("(1)")],
    }
    formula = {"type": "math", "html": "<b>A</b>", "value": "A", "html_id": "eq-a"}
    html = preview(root({"type": "paragraph", "children": [pointer]}, formula), "eq-a")
    assert "<b>A</b>" in html
    assert "(1)" not in html


def test_reference_inside_a_preview_leads_to_its_own_page() -> None:
    pointer = {
        "type": "crossReference",
        "identifier": "eq-a",
        "resolved": True,
        "children": [text("(1)")],
    }
    tree = root(heading("Clip", "clip"), {"type": "paragraph", "children": [pointer]})
    html = preview(tree, "clip")
    assert '<a class="reference" href="../../notebooks/ppo/index.html#eq-a">(1)</a>' in html


# Search


def test_sections_of_a_page() -> None:
    removed = {"type": "block", "visibility": "remove", "children": [paragraph("gone")]}
    tree = root(
        paragraph("intro"), heading("Loss", "loss"), paragraph("a"), paragraph("b"), removed
    )
    page = make_page(tree=tree, frontmatter={"title": "x", "subtitle": "sub"})
    found = [(s.heading, s.anchor, s.text) for s in page_sections(page)]
    assert found == [("", "", "sub intro"), ("Loss", "loss", "a b")]


def test_hidden_output_is_searched_and_removed_output_is_not() -> None:
    def outputs(printed: str, visibility: str) -> dict:
        output = {"output_type": "stream", "name": "stdout", "text": printed}
        return {
            "type": "outputs",
            "visibility": visibility,
            "children": [{"type": "output", "jupyter_data": output}],
        }

    tree = root(outputs("folded", "hide"), outputs("gone", "remove"))
    assert [s.text for s in page_sections(make_page(tree=tree))] == ["folded"]


# Loading and writing


def served_book(tree: dict) -> Callable[[str], bytes]:
    page = {
        "location": "/book/index.md",
        "frontmatter": {"title": "Start"},
        "mdast": tree,
        "references": {"cite": {"data": {"a1": {"html": "A."}}}},
    }
    project = {"index": "index", "title": "T", "pages": [{"level": 1, "title": "Part"}]}
    answers = {
        "/config.json": {"projects": [project]},
        "/content/index.json": page,
        "/public.json": ["/x.csv"],
    }
    return lambda path: json.dumps(answers[path]).encode() if path in answers else b"1,2"


def test_book_is_read_from_the_content_server() -> None:
    book = load_book(served_book(root(paragraph("x"))))
    assert [page.location for page in book.pages] == ["book/index.md"]
    assert book.citations == {"a1": "A."}
    assert [(e.level, e.title, e.page is None) for e in book.entries] == [
        (1, "Start", False),
        (1, "Part", True),
    ]


def test_site_is_written_whole(tmp_path) -> None:
    assert render_site(load_book(served_book(root(paragraph("x")))), tmp_path) == 1
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert {
        "index.html",
        "pages.json",
        "files/x.csv",
        "assets/style.css",
        "assets/book.js",
    } <= written


def test_faults_of_the_pages_are_reported_together_and_nothing_is_written(tmp_path) -> None:
    outside = {"type": "paragraph", "children": [{"type": "marquee"}, {"type": "blink"}]}
    with pytest.raises(BuildError) as raised:
        render_site(load_book(served_book(root(outside))), tmp_path)
    assert "marquee" in str(raised.value)
    assert "blink" in str(raised.value)
    assert list(tmp_path.iterdir()) == []
