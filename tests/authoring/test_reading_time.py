"""Reading times are counted, and the cards state what is counted."""

import pytest

from bookkit.authoring.reading_time import (
    CODE_LINES_A_MINUTE,
    WORDS_A_MINUTE,
    ReadingTime,
    reading_time,
)
from bookkit.authoring.run_card import RULE
from tests.authoring.book import REPOSITORY, Book, code

PAGE = "notebooks/01_page.md"
LINES = code("\n\n".join(f"x{i} = {i}" for i in range(10)))


def page(minutes: str, body: str) -> str:
    card = f":::{{admonition}} Run card\n:class: run-card\nTime\n: {minutes}\n:::"
    return f"# A page\n\n{card}\n\n{body}\n"


@pytest.mark.parametrize(
    ("text", "words", "lines"),
    [
        ("---\ntitle: Not counted\n---\nThree short words.", 3, 0),
        ("# One title\n\nIt's `code here`, [a link](x.md), $a + b$.", 2 + 1 + 1 + 2, 0),
        ("| a | b |\n|---|---|\n| c | d |", 4, 0),
        ("Word.\n\n$$\na = b\n$$\n\n```{math}\nc\n```", 1, 0),
        (f"Word.\n\n{LINES}", 1, 10),
        ("```python\nx\n\ny\n```", 0, 2),
        (code("x = 1", "hide-input"), 0, 0),
        (code("x = 1", "tangle, hide-input"), 0, 0),
        (code("x = 1", "tangle"), 0, 1),
        (code("x = 1", "hide-output"), 0, 1),
        (f":::{{admonition}} Folded title\n:class: dropdown\nWords.\n{LINES}:::\n\nOne.", 1, 0),
        (":::{admonition} Title\n:class: tip\nTwo words.\n:::", 2, 0),
    ],
)
def test_what_is_counted(text: str, words: int, lines: int):
    assert reading_time(text) == ReadingTime(words, lines)


@pytest.mark.parametrize(
    ("words", "lines", "minutes"),
    [(0, 0, 5), (220 * 7, 0, 5), (220 * 8, 0, 10), (220 * 20, 0, 20), (0, 30 * 20, 20),
     (220 * 10, 30 * 13, 25)],
)  # fmt: skip
def test_minutes_to_the_nearest_five(words: int, lines: int, minutes: int):
    assert ReadingTime(words, lines).minutes == minutes


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (f"15 minutes of reading on the core path {RULE}, 5 s of cells", None),
        (f"15 minutes of reading {RULE}", None),
        (f"20 minutes of reading {RULE}", "states 20 minutes of reading, counted are 15; write 15"),
        (
            "15 minutes of reading (220 words a minute)",
            f"counts by (220 words a minute); write {RULE}",
        ),
        (
            "a while",
            f"states no reading time; write `: 15 minutes of reading on the core path {RULE}",
        ),
    ],
)
def test_a_run_card_states_what_is_counted(book: Book, stated: str, message: str | None):
    book.write(PAGE, page(stated, "word " * 220 * 15))
    output = book.nbkit("lint-prose", PAGE, status=1 if message else 0)
    assert "in order" in output if message is None else message in output
    assert message is None or output.startswith(f"{PAGE}:{4 if 'while' in stated else 6}: ")


def test_pages_without_a_run_card_and_solutions_state_none(book: Book):
    book.write(PAGE, "# A page\n\nText.\n")
    book.write("solutions/01_page.md", page("2 hours for all", "Text."))
    assert "in order" in book.nbkit("lint-prose")


CARD = """:::{grid-item-card} 21. A page
:link: ../notebooks/21_page.ipynb
+++
15 min to read, 1 h 40 min of exercises
:::
:::{grid-item-card} 22. Another
:link: ../notebooks/22_later.ipynb
+++
20 min to read
:::
"""
ROWS = """
| You are | Read | Hours |
|---|---|---:|
| **Quick**: reads | 21, 31–32 | 1 |
| **Busy**: reads, 2 days | 21; the exercises of 21 | 2 |
| **Thorough** | 21, 31–32, with exercises | 2 |
"""


@pytest.fixture
def landing(book: Book) -> Book:
    """A landing page of three chapters of 15 minutes, the first with 100 minutes of exercises."""
    for stem in ("21_page", "31_page", "32_page"):
        book.write(
            f"notebooks/{stem}.md", page(f"15 minutes of reading {RULE}", "word " * 220 * 15)
        )
        book.write(f"notebooks/{stem}.ipynb", '{"nbformat": 4, "cells": []}')
    book.write("notebooks/22_later.ipynb", '{"nbformat": 4, "cells": []}')
    heads = "".join(
        f"## One\n\n`a.b.{minutes}` · difficulty 2 of 5 · {minutes} minutes\n\n"
        for minutes in (40, 60)
    )
    book.write("solutions/21_page.md", f"# Solutions\n\n{heads}")
    book.write("book/index.md", f"# Start\n\n{CARD}{ROWS}")
    return book


def test_a_right_landing_page(landing: Book):
    assert "in order" in landing.nbkit("lint-prose")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "15 min",
            "25 min",
            "6: 25 min to read is stated for 21_page.md, counted are 15; write 15 min",
        ),
        (
            "1 h 40 min",
            "55 min",
            "6: 55 min of exercises are stated for 21_page.md, its solutions have 100; "
            "write 1 h 40 min",
        ),
        ("| 1 |", "| 2 |", "16: a path of 2 hours takes 45 minutes; write 1"),
        ("of 21 | 2 |", "of 21 | 1 |", "17: a path of 1 hours takes 115 minutes; write 2"),
        ("exercises | 2 |", "exercises | 1 |", "18: a path of 1 hours takes 145 minutes; write 2"),
        (
            "31–32 | 1",
            "31–33 | 1",
            "16: a path names chapter 33, which is not written; leave it out",
        ),
        (
            "exercises of 21",
            "exercises of 34",
            "17: a path names chapter 34, which is not written; leave it out",
        ),
    ],
)
def test_what_the_landing_page_states_is_computed(landing: Book, old: str, new: str, message: str):
    landing.write("book/index.md", f"# Start\n\n{CARD}{ROWS}".replace(old, new))
    assert landing.nbkit("lint-prose", status=1).strip() == f"book/index.md:{message}"


def test_the_rule_is_stated_where_authors_read():
    text = (REPOSITORY / "book" / "contributing.md").read_text(encoding="utf-8")
    assert f"{WORDS_A_MINUTE} words or {CODE_LINES_A_MINUTE} lines of code a minute" in text
