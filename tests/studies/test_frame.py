"""The frame of the studies: their command line and their heads."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bookkit.authoring.heads import StudyMismatch
from studies import _frame
from studies._frame import Frame, figures


def test_figures_are_named_by_arm_metric_and_update() -> None:
    history = [{"loss": 2, "kl": 0.5, "other": 9}, {"loss": 1, "kl": 0.25, "other": 9}]
    assert figures(history, ("loss", "kl"), "base") == {
        "base: loss 1": 2.0, "base: kl 1": 0.5, "base: loss 2": 1.0, "base: kl 2": 0.25,
    }  # fmt: skip
    assert list(figures(history[:1], ("loss",))) == ["loss 1"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command of a study whose head is 3 and whose tolerance is 0.5."""
    monkeypatch.setattr(_frame, "ROOT", tmp_path)
    called: list[tuple[Path, int]] = []

    def measure(out: Path, jobs: int = 1) -> None:
        """Measure something."""
        called.append((out, jobs))

    frame = Frame("/x/curve.py", measure, lambda: {"a: loss 1": 3.0}, {"loss": 0.5})
    app = typer.Typer()
    app.command()(frame.command())

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, words), called

    return invoke


def test_the_command_measures_with_the_study_s_own_options(run, tmp_path: Path) -> None:
    result, called = run("--jobs", "3")
    assert result.exit_code == 0
    assert called == [(tmp_path / "studies/results/curve.json", 3)]
    result, called = run("--out", "y.json")
    assert called[-1] == (Path("y.json"), 1)
    assert "Measure something" in run("--help")[0].output
    assert run("--unknown")[0].exit_code == 2


def test_the_command_compares_its_head(run, tmp_path: Path) -> None:
    head = tmp_path / "studies/heads/curve.json"
    head.parent.mkdir(parents=True)
    for stored, agrees in ((3.4, True), (3.6, False), (0.0, False)):
        head.write_text(json.dumps({"head": {"a: loss 1": stored}}))
        result, called = run("--check")
        assert (result.exit_code == 0) is agrees and not called
        assert agrees or isinstance(result.exception, StudyMismatch)
    head.unlink()
    result, _ = run("--check")
    assert "nbkit study curve --draws" in str(result.exception)


def test_the_command_writes_its_figures(run, tmp_path: Path) -> None:
    result, called = run("--figures", str(tmp_path / "f.json"))
    assert result.exit_code == 0 and not called
    assert json.loads((tmp_path / "f.json").read_text()) == {
        "head": {"a: loss 1": 3.0},
        "tolerances": {"a: loss 1": 0.5},
    }
