"""Ways through the book: parts, the contents beside the page, previous and next."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from renderer.content import Book, Entry, Page
from renderer.errors import BuildError

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
    """Group the table of contents into parts; a chapter's number is that of its file."""
    parts = [Part("")]
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
        item.number = chapter_number(entry.page)
        parts[-1].items.append(item)
    return Navigation(book, [part for part in parts if part.items])


def chapter_number(page: Page) -> int | None:
    """The number of a chapter, from its file (notebooks/11_slug.ipynb is chapter 11).

    One number serves the file, the commands (`make test CHAPTER=11`), the equations and the
    exercises. None for a page that is not a chapter.
    """
    path = PurePosixPath(page.location)
    if path.parts[0] != CHAPTER_FOLDER:
        return None
    number, _, _ = path.stem.partition("_")
    if not number.isdecimal():
        raise BuildError(f"{page.location}: a chapter's file is named by its number, as in 11_slug")
    return int(number)


def numbering_fault(page: Page) -> str:
    """What is wrong with the numbers of a chapter's equations and exercises; empty if nothing."""
    number = chapter_number(page)
    given = (page.frontmatter.get("numbering") or {}).get("enumerator") or {}
    found = given.get("enumerator")
    if number is None or found == f"{number}.%s":
        return ""
    return (
        f"{page.location}: the front matter must say `numbering: {{enumerator: {number}.%s}}`, so "
        f"that equations and exercises are numbered {number}.1, {number}.2, … (found: {found})"
    )


def title_fault(page: Page) -> str:
    """What is wrong with a page's title; empty if nothing.

    mystmd takes a heading from the middle of the text if neither the front matter (in a notebook:
    that of its first cell) nor a heading at the top gives a title.
    """
    if not page.frontmatter.get("content_includes_title"):
        return ""
    return f"{page.location}: the page has no title: begin it with front matter or with `# Title`"


def _is_below_a_page(entry: Entry, part: Part, part_level: int) -> bool:
    return bool(part.items) and entry.level > part_level + 1
