"""The whole book as one PDF: Chromium prints each page, pypdf joins them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

from bookkit.site.browser import find_chromium, missing_browser, sandbox_arguments
from bookkit.site.build import SiteError

PRINT_TIMEOUT_SECONDS = 180


@dataclass
class Sheet:
    """One page of the site, printed."""

    title: str
    part: str
    address: str  # file:// address of its HTML
    reader: PdfReader
    first: int  # index of its first page in the whole


def print_book(site: Path, target: Path, say: Callable[[str], None]) -> int:
    """Print the built site to one PDF and return its number of pages.

    Folded parts are open. The outline holds parts, pages and sections; links between pages lead to
    places in the PDF. Raises SiteError if there is no Chromium or a page cannot be printed.
    """
    chromium = find_chromium()
    if chromium is None:
        raise SiteError(missing_browser())
    pages = json.loads((site / "pages.json").read_text(encoding="utf-8"))
    sheets: list[Sheet] = []
    count = 0
    with tempfile.TemporaryDirectory(prefix="book-pdf-") as folder:
        for number, page in enumerate(pages):
            say(f"[{number + 1}/{len(pages)}] {page['title']}")
            address = (site / page["path"]).resolve().as_uri()
            printed = Path(folder) / f"{number:03d}.pdf"
            print_page(chromium, f"{address}?first-page={count + 1}", printed)
            reader = PdfReader(printed)
            sheets.append(Sheet(page["title"], page["part"], address, reader, count))
            count += len(reader.pages)
        writer = join(sheets)
        writer.add_metadata({"/Title": pages[0]["title"]})
        target.parent.mkdir(parents=True, exist_ok=True)
        writer.write(target)
    return count


def print_page(chromium: Path, address: str, target: Path) -> None:
    """Let Chromium print one page."""
    command = [
        str(chromium),
        "--headless",
        *sandbox_arguments(),
        "--disable-gpu",
        "--disable-background-networking",
        "--no-pdf-header-footer",
        "--generate-pdf-document-outline",
        "--virtual-time-budget=5000",
        f"--print-to-pdf={target}",
        address,
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PRINT_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise SiteError(f"Chromium did not print {address} in {PRINT_TIMEOUT_SECONDS} s.") from None
    if done.returncode != 0 or not target.is_file():
        raise SiteError(f"Chromium could not print {address}:\n{done.stderr.strip()}")


def join(sheets: list[Sheet]) -> PdfWriter:
    """One document of all sheets, with an outline and with links inside."""
    writer = PdfWriter()
    for sheet in sheets:
        writer.append(sheet.reader, import_outline=False)
    by_address = {sheet.address: sheet for sheet in sheets}
    for sheet in sheets:
        for offset in range(len(sheet.reader.pages)):
            _redirect_links(writer, sheet, sheet.first + offset, by_address)
    part, parent = "", None
    for sheet in sheets:
        if sheet.part != part:
            part = sheet.part
            parent = writer.add_outline_item(title=part, page_number=sheet.first) if part else None
        item = writer.add_outline_item(title=sheet.title, page_number=sheet.first, parent=parent)
        sections = sheet.reader.outline
        nested = next((entry for entry in sections if isinstance(entry, list)), [])
        _add_outline(writer, sheet, nested, item)
    return writer


def _add_outline(writer: PdfWriter, sheet: Sheet, entries: list[Any], parent: Any) -> None:
    """Copy the sections of a sheet below its entry."""
    item = parent
    for entry in entries:
        if isinstance(entry, list):
            _add_outline(writer, sheet, entry, item)
            continue
        place = sheet.reader.get_destination_page_number(entry)
        if place is not None:
            item = writer.add_outline_item(
                title=str(entry.title), page_number=sheet.first + place, parent=parent
            )


def _redirect_links(
    writer: PdfWriter, sheet: Sheet, place: int, by_address: dict[str, Sheet]
) -> None:
    """Turn links between pages of the site into links within the document.

    A link to a file that the PDF does not hold is dropped; a link to the outside stays.
    """
    page = writer.pages[place]
    kept = ArrayObject()
    for reference in page.get("/Annots", ArrayObject()):
        link = reference.get_object()
        action = link.get("/A")
        if "/Dest" in link:
            destination = _place(writer, sheet, str(link["/Dest"]).removeprefix("/"))
        elif action is not None and str(action.get("/URI", "")).startswith("file:"):
            uri = urlsplit(str(action["/URI"]))
            target = by_address.get(f"file://{uri.path}")
            if target is None:
                continue
            destination = _place(writer, target, unquote(uri.fragment))
            del link["/A"]
        else:
            kept.append(reference)
            continue
        link[NameObject("/Dest")] = destination
        kept.append(reference)
    if "/Annots" in page:
        page[NameObject("/Annots")] = kept


def _place(writer: PdfWriter, sheet: Sheet, anchor: str) -> ArrayObject:
    """The place of an anchor of a sheet in the whole document (the sheet's top if it has none)."""
    named = sheet.reader.named_destinations.get(f"/{anchor}")
    offset, left, top = 0, None, None
    if named is not None:
        offset = sheet.reader.get_destination_page_number(named) or 0
        left, top = named.left, named.top
    page = writer.pages[sheet.first + offset].indirect_reference
    numbers = [FloatObject(x) if x is not None else NullObject() for x in (left, top, None)]
    return ArrayObject([page, NameObject("/XYZ"), *numbers])
