"""The command, the notebook's cell, and what is kept of an attempt."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookkit.builds import desk, notebook
from bookkit.builds.commands import app
from bookkit.builds.registry import SOLUTIONS, all_builds, get_build, source_of
from bookkit.builds.report import as_text
from bookkit.exercises.progress import load
from nbkit.errors import UserError


@pytest.fixture
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "progress.json"
    monkeypatch.setenv("NBKIT_PROGRESS", str(path))
    monkeypatch.setattr(desk, "ROOT", tmp_path)
    return path


def given(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Let the learner's file be this one."""
    monkeypatch.setattr(desk, "source_of", lambda build, folder: source)


def test_a_file_that_is_not_written_is_no_attempt(progress: Path) -> None:
    verdict, written = desk.attempt(32, say=lambda _: None)
    assert not verdict.passed and not written and not progress.exists()


def test_a_cell_shows_verdict_and_keeps_the_attempt(
    progress: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solution = source_of(get_build(32), SOLUTIONS)
    given(monkeypatch, solution.replace("total[:-1] / total[-1]", "total[:-1]"))
    shown: list[object] = []
    monkeypatch.setattr("IPython.display.display", lambda *parts, **_: shown.extend(parts))
    assert not notebook.build(32).passed
    given(monkeypatch, solution)
    assert notebook.build(32).passed
    texts = [part.data for part in shown if hasattr(part, "data")]
    assert "✘ build 32" in texts[0] and "✔ build 32" in texts[1]
    record = load(progress).exercises["build.32"]
    assert record.attempts == 2 and record.last_passed
    (line,) = [line for line in desk.standing() if line.startswith(" 32")]
    assert "passed, 2 tries" in line


def test_the_command_lists_builds_and_ends_with_status_1_where_one_fails(progress: Path) -> None:
    listed = CliRunner().invoke(app, ["build"])
    assert listed.exit_code == 0
    assert listed.stdout.count("not tried") == len(all_builds()) + 1  # and the capstone
    done = CliRunner().invoke(app, ["build", "32"])
    assert done.exit_code == 1 and "not written yet" in done.stdout


def test_one_stage_alone_is_no_attempt(
    progress: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, source_of(get_build(31), SOLUTIONS))
    verdict, _ = desk.attempt(31, stages=("equal",), say=lambda _: None)
    assert [finding.title for finding in verdict.findings] == ["equal"]
    assert verdict.findings[0].passed and not verdict.passed and not progress.exists()
    with pytest.raises(UserError, match="build 31 has no stage 'fast'; it has equal, faster"):
        desk.attempt(31, stages=("fast",))


def test_without_a_sandbox_it_runs_only_where_that_is_accepted(
    progress: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbkit.rewards._process.available", lambda: ("", "none is installed"))
    given(monkeypatch, source_of(get_build(32), SOLUTIONS))
    with pytest.raises(UserError, match="say --unprotected"):
        desk.attempt(32, say=lambda _: None)
    assert not progress.exists()
    verdict, _ = desk.attempt(32, allow_unprotected=True, say=lambda _: None)
    assert verdict.passed and "has no sandbox" in as_text(verdict)


def test_an_unknown_build_names_those_that_exist() -> None:
    with pytest.raises(
        UserError, match="chapter 99 has no build; builds belong to chapters 11, 12"
    ):
        get_build(99)
