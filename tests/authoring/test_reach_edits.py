"""Attempts to have a page stand on code that has changed, and edits that must cost nothing.

They stand in `reach_edits.txt`. A case is a name, modules beside `nbkit/base.py`, the cells of a
page, and an edit of a module; the edit that is left out is that of `half`.
"""

import re
from pathlib import Path

import pytest

from bookkit.authoring.reach import Finder
from tests.authoring.book import Book

CASES = Path(__file__).with_name("reach_edits.txt").read_text(encoding="utf-8")
BASE = """
def half(x):
    return x / 2
def other(x):
    return x
LIMIT = 3
"""
NAMES = re.findall("^=== (.*)$", CASES, re.MULTILINE)
Case = list[tuple[str, str]]  # the head of a part, and its text


def case(name: str) -> Case:
    text = CASES.split(f"=== {name}\n")[1].partition("\n=== ")[0]
    parts = re.split(r"^--- (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], [part.rstrip("\n") for part in parts[1::2]], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_is_seen_where_it_matters(tmp_path: Path, name: str):
    book = Book(tmp_path)
    parts = case(name)
    book.write("nbkit/__init__.py", "")
    book.write("nbkit/base.py", BASE)
    for head, text in parts:
        if head.startswith(("nbkit/", "studies/")):
            book.write(head, text + "\n")
    cells = [text for head, text in parts if head == "cell"]
    edits = [(head[5:], text) for head, text in parts if head.startswith("edit ")]
    file, old = edits[0] if edits else ("nbkit/base.py", "x / 2")
    new = next((text for head, text in parts if head == "into"), "x * 0.5")
    before = Finder(tmp_path).reach(sources=cells).symbols
    assert book.read(file).count(old) == 1
    book.write(file, book.read(file).replace(old, new))
    after = Finder(tmp_path).reach(sources=cells).symbols
    changed = {symbol for symbol in before | after if before.get(symbol) != after.get(symbol)}
    assert bool(changed) == name.startswith("seen: "), changed


def test_the_cases_have_names_of_their_own():
    assert len(set(NAMES)) == len(NAMES) > 70
