"""Progress survives interruption, corruption and two notebooks at once."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookkit.exercises import progress
from bookkit.exercises.commands import app
from bookkit.exercises.progress import Progress, load, note_attempt, save
from bookkit.exercises.registry import sections_of_chapter

MASK = "reinforce.mask.1"


def test_done_stays_done(own_progress: Path) -> None:
    assert load(own_progress).state(MASK) == "not tried"
    note_attempt(MASK, False)
    assert load(own_progress).state(MASK) == "failed"
    note_attempt(MASK, True)
    note_attempt(MASK, False)
    kept = load(own_progress)
    assert kept.state(MASK) == "done"
    assert kept.exercises[MASK].attempts == 3
    assert not kept.exercises[MASK].last_passed


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe\x00",
        b'{"version": 1, "exercises": {"a": {"attempts": 0}}}',
        b'{"version": 2, "exercises": {}}',
    ],
)
def test_file_that_is_not_understood_is_kept_aside(
    own_progress: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    own_progress.write_bytes(content)
    note_attempt(MASK, True)
    said = capsys.readouterr().out
    assert "could not be understood: it is kept as progress.unreadable-1.json" in said
    assert said.count("\n") == 1
    assert (own_progress.parent / "progress.unreadable-1.json").read_bytes() == content
    assert load(own_progress).state(MASK) == "done"
    own_progress.write_bytes(content)
    load(own_progress)
    assert (own_progress.parent / "progress.unreadable-2.json").read_bytes() == content


def test_interrupted_write_leaves_the_old_file(
    own_progress: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_attempt(MASK, True)
    before = own_progress.read_bytes()

    def full(_handle: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(own_progress, Progress())
    assert own_progress.read_bytes() == before
    assert not list(own_progress.parent.glob("*.tmp"))


def test_unwritable_place_does_not_spoil_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NBKIT_PROGRESS", str(tmp_path / "file" / "progress.json"))
    note_attempt(MASK, True)
    assert capsys.readouterr().out.startswith("Progress was not stored in ")


def _note(name: str) -> None:
    for _ in range(10):
        note_attempt(name, True)


@pytest.mark.slow
def test_two_notebooks_at_once_lose_nothing(own_progress: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_note, args=(name,)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    kept = load(own_progress).exercises
    assert {name: record.attempts for name, record in kept.items()} == {"a": 10, "b": 10}


def test_solutions_are_not_the_learners_work(
    own_progress: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "solutions/11_reinforce.ipynb")
    note_attempt(MASK, True)
    assert not own_progress.exists()


def test_file_belongs_to_the_book_that_holds_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBKIT_PROGRESS")
    (tmp_path / "book" / "nbkit").mkdir(parents=True)
    (tmp_path / "book" / "exercises").mkdir()
    (tmp_path / "book" / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path / "book" / "exercises")
    assert progress.progress_file() == tmp_path / "book" / ".nbkit" / "progress.json"
    monkeypatch.chdir(tmp_path)
    assert progress.progress_file() is None
    note_attempt(MASK, True)
    assert not list(tmp_path.rglob("progress.json"))


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_table(own_progress: Path) -> None:
    note_attempt(MASK, True)
    code, text = run("progress")
    assert code == 0
    (line,) = [line for line in text.splitlines() if MASK in line]
    assert "✔ done, 1 try" in line and "●●○○○" in line
    assert "1 of " in text and "minutes of work left" in text
    code, text = run("progress", "--chapter", "11")
    assert code == 0
    assert "chapter 11" in text and "1 of 9 done" in text
    assert "chapter 1 " not in text


def test_no_title_is_cut_on_a_narrow_screen() -> None:
    result = CliRunner().invoke(app, ["progress", "--chapter", "11"], env={"COLUMNS": "80"})
    assert result.exit_code == 0 and "…" not in result.output
    words = set(result.output.split())
    assert all(set(section.title.split()) <= words for section in sections_of_chapter(11))


def test_table_of_an_empty_chapter(own_progress: Path) -> None:
    code, text = run("progress", "--chapter", "77")
    assert code == 1
    assert "chapter 77 has no exercises" in text


def test_table_with_a_corrupt_file(own_progress: Path) -> None:
    own_progress.write_text("{")
    code, text = run("progress")
    assert code == 0
    assert "could not be understood" in text


def test_prove(own_progress: Path) -> None:
    code, text = run("prove", MASK, "--seeds", "1")
    assert code == 0
    assert "mutants behave as they must on 1 seeds" in text
    code, text = run("prove", "reinforce.maks.1")
    assert code == 1
    assert "did you mean 'reinforce.mask.1'" in text
    empty = {"version": 1, "exercises": {}, "predictions": {}}
    assert json.loads(Progress().model_dump_json()) == empty
