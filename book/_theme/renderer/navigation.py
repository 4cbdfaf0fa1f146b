"""Ways through the book: parts, the contents beside the page, previous and next."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from renderer.content import Book, Entry, Page

CHAPTER_FOLDER = "notebooks"


@dataclass
class Item:
    """A page in the contents, with the pages below it (a chapter's exercises and solutions)."""

    page: Page
    number: int | None = None
    children: list[Item] = field(default_factory=list)

    def holds(self, page: Page) -> bool:
        """Whether the page is this one or below it."""
        return page is self.page or any(child.holds(page) for child in self.children)


@dataclass
class Part:
    """A part of the book; pages before the first part stand in one without a title."""

    title: str
    items: list[Item] = field(default_factory=list)

    def holds(self, page: Page) -> bool:
        """Whether the page belongs to this part."""
        return any(item.holds(page) for item in self.items)


@dataclass(frozen=True)
class Navigation:
    """The whole of it, once a book."""

    book: Book
    parts: list[Part]

    def previous_and_next(self, page: Page) -> tuple[Page | None, Page | None]:
        """The neighbours of a page in reading order."""
        place = self.book.pages.index(page)
        before = self.book.pages[place - 1] if place else None
        after = self.book.pages[place + 1] if place + 1 < len(self.book.pages) else None
        return before, after

    def part_of(self, page: Page) -> Part | None:
        """The part that a page belongs to."""
        return next((part for part in self.parts if part.holds(page)), None)

    def number_of(self, page: Page) -> int | None:
        """The number of a chapter (its exercises and solutions have none)."""
        for part in self.parts:
            for item in part.items:
                if item.page is page:
                    return item.number
        return None


def build_navigation(book: Book) -> Navigation:
    """Group the table of contents into parts and number the chapters through the book."""
    parts, chapters = [Part("")], 0
    part_level = 0
    for entry in book.entries:
        if entry.page is None:
            parts.append(Part(entry.title))
            part_level = entry.level
            continue
        item = Item(entry.page)
        if _is_below_a_page(entry, parts[-1], part_level):
            parts[-1].items[-1].children.append(item)
            continue
        if entry.level <= part_level:
            parts.append(Part(""))
        if PurePosixPath(entry.page.location).parts[0] == CHAPTER_FOLDER:
            chapters += 1
            item.number = chapters
        parts[-1].items.append(item)
    return Navigation(book, [part for part in parts if part.items])


def _is_below_a_page(entry: Entry, part: Part, part_level: int) -> bool:
    return bool(part.items) and entry.level > part_level + 1
