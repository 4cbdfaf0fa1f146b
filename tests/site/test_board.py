"""The capstone's board on the built page: read from its file, the best line first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from renderer import measured as theme

from bookkit.builds.capstone.board import BOARD, FOLDER, digest_of
from bookkit.site.board import board_lines
from nbkit.errors import UserError

NODE = {
    "type": "div",
    "class": "board",
    "children": [{"type": "paragraph", "children": [{"type": "text", "value": "elsewhere"}]}],
}


def write(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book with two entries; the file of the second has changed since."""
    entries = []
    for name, after in (("first", [0.5, 0.7]), ("second", [0.9, 0.9])):
        write(tmp_path, f"{FOLDER}/{name}.py", f'"""The {name} <method>."""\n')
        digest = digest_of(f'"""The {name} <method>."""\n' if name == "first" else "")
        line = {"name": name, "method": f"The {name} <method>.", "digest": digest, "after": after}
        line |= {"rules": "r", "before": [0.4, 0.4], "tokens": [1500, 2500], "commit": "c"}
        line |= {"processor_seconds": [9.6, 10.0], "date": "2026-11-30", "processor": "a <chip>"}
        entries.append(line | {"versions": {"torch": "2.1"}})
    write(tmp_path, BOARD, json.dumps({"rules": {}, "entries": entries}))
    return tmp_path


def test_lines_are_read_from_the_file_the_best_first(book: Path) -> None:
    second, first = board_lines(book)
    assert (second["name"], second["changed"]) == ("second", True)
    assert (first["name"], first["changed"], first["tokens"]) == ("first", False, 2000)
    assert first["accuracy"] == pytest.approx(0.6) and first["half_width"] > 1
    assert first["facts"] == "2026-11-30, a <chip>, torch 2.1"
    (book / FOLDER / "first.py").unlink()
    with pytest.raises(UserError, match=r"an entry of .* has no file"):
        board_lines(book)
    (book / BOARD).unlink()
    assert board_lines(book) == []


def test_the_division_becomes_the_table(
    book: Path, monkeypatch: pytest.MonkeyPatch, render: Callable[..., str]
) -> None:
    content = {"results": {}, "pages": {}, "board": board_lines(book)}
    write(book, "measured.json", json.dumps(content))
    monkeypatch.setenv(theme.VARIABLE, str(book / "measured.json"))
    html = render(NODE)
    assert html.startswith('<div class="table-scroll"><table><thead><tr><th>place</th>')
    assert html.index("second") < html.index("first") and html.count("<tr>") == 3
    assert "The first &lt;method&gt;." in html and "a &lt;chip&gt;" in html
    assert "<td>90.0 % ± 0.0</td><td>2,000</td><td>10</td>" in html
    assert html.count("its file has changed since") == 1 and "elsewhere" not in html


def test_a_board_without_entries_stops_the_build(
    monkeypatch: pytest.MonkeyPatch, error_of: Callable[[dict], str]
) -> None:
    monkeypatch.delenv(theme.VARIABLE, raising=False)
    assert "the board has no entries" in error_of(NODE)
