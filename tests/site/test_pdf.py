"""The book as one PDF, printed by Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_tools import required_chromium
from pypdf import PdfReader

from bookkit.site import pdf
from bookkit.site.build import SiteError

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def book(fixture_site: Path, tmp_path_factory: pytest.TempPathFactory) -> PdfReader:
    required_chromium()
    target = tmp_path_factory.mktemp("pdf") / "book.pdf"
    count = pdf.print_book(fixture_site, target, lambda line: None)
    reader = PdfReader(target)
    assert len(reader.pages) == count
    return reader


def outline(reader: PdfReader, entries: list | None = None, depth: int = 0) -> list[tuple]:
    """Depth, title and page of every entry."""
    found: list[tuple] = []
    for entry in reader.outline if entries is None else entries:
        if isinstance(entry, list):
            found += outline(reader, entry, depth + 1)
        else:
            page = reader.get_destination_page_number(entry)
            found.append((depth, str(entry.title), page))
    return found


def test_outline_holds_parts_pages_and_sections(book: PdfReader) -> None:
    found = outline(book)
    titles = [(depth, title) for depth, title, _ in found]
    for expected in [
        (0, "The fixture book"),
        (0, "Part I. Constructs"),
        (1, "Every construct"),
        (2, "Mathematics"),
        (3, "Citations"),
        (1, "A notebook of every output"),
        (2, "Streams"),
    ]:
        assert expected in titles
    pages = [page for _, _, page in found]
    assert pages == sorted(pages)
    for _, title, page in found:
        if title not in {"Part I. Constructs"}:
            assert title in book.pages[page].extract_text().replace("\n", " "), title


def test_folded_parts_are_open(book: PdfReader) -> None:
    text = "".join(page.extract_text() for page in book.pages)
    for folded in [
        "Sum from the end",
        "A hint.",
        "Folded, with",
        "whole cell folded",
        "hidden_input",
    ]:
        assert folded in text


def test_pages_are_numbered_through_the_book(book: PdfReader) -> None:
    for number, page in enumerate(book.pages, start=1):
        assert str(number) in page.extract_text().split("\n"), number


def test_way_finding_of_the_screen_is_gone(book: PdfReader) -> None:
    text = "".join(page.extract_text() for page in book.pages)
    for words in ["Skip to the text", "On this page", "Edit this page", "Search", "Copy"]:
        assert words not in text


def test_links_between_pages_lead_into_the_document(book: PdfReader) -> None:
    inside = 0
    for page in book.pages:
        for reference in page.get("/Annots", []):
            link = reference.get_object()
            if "/Dest" in link:
                target = link["/Dest"][0].get_object()
                assert target["/Type"] == "/Page"
                inside += 1
            else:
                assert link["/A"]["/URI"].startswith("https:")
    assert inside > 20


def test_link_to_an_equation_of_another_page_leads_to_its_page(book: PdfReader) -> None:
    places = {title: page for _, title, page in outline(book)}
    last = book.pages[len(book.pages) - 1]
    targets = {
        book.get_page_number(reference.get_object()["/Dest"][0].get_object())
        for reference in last.get("/Annots", [])
        if "/Dest" in reference.get_object()
    }
    assert places["Mathematics"] in targets


def test_without_chromium_the_mend_is_named(
    fixture_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBKIT_CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(SiteError, match="Chromium was not found: install it"):
        pdf.print_book(fixture_site, tmp_path / "book.pdf", print)
    assert not (tmp_path / "book.pdf").exists()
