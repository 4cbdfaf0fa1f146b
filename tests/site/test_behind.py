"""Who edits a text and builds the book is told that the site shows what ran before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from bookkit.site.behind import behind_lines

ROOT = Path(__file__).resolve().parents[2]


def test_an_edited_text_is_named_and_the_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "myst.yml").write_text("project: {}\n")
    for name in ("01_score_function", "02_text_as_mdp"):
        for suffix in ("md", "ipynb"):
            shutil.copy(ROOT / "notebooks" / f"{name}.{suffix}", tmp_path / "notebooks")
    edited = tmp_path / "notebooks" / "01_score_function.md"
    before = {line.split()[0] for line in behind_lines(tmp_path)}
    edited.write_text(edited.read_text() + "\nOne more sentence.\n")
    (line,) = (line for line in behind_lines(tmp_path) if line.split()[0] not in before)
    assert line == (
        "notebooks/01_score_function.md was edited since it was executed, and the site shows it "
        "as it was: run `nbkit execute notebooks/01_score_function.md`."
    )


def test_a_notebook_that_cannot_be_read_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks/01_score_function.md", tmp_path / "notebooks")
    (tmp_path / "notebooks/01_score_function.ipynb").write_text(json.dumps({}))
    (line,) = behind_lines(tmp_path)
    assert "is not a readable notebook" in line
