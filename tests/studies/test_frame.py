"""The frame of the studies: their command line, and runs that are kept and resumed."""

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bookkit.authoring.heads import StudyMismatch
from studies import _frame
from studies._frame import Frame, by_arm, every, figures, run_all


def measured(arm: str, seed: int) -> dict[str, Any]:
    if arm == "broken":
        raise RuntimeError("it must not run")
    return {"value": 10 * seed}


def test_runs_come_in_order_with_seed_and_seconds() -> None:
    runs = run_all(every(measured, ["b", "a"], [2, 1]))
    assert list(runs) == [("b", 2), ("b", 1), ("a", 2), ("a", 1)]
    arms = by_arm(runs)
    assert list(arms) == ["b", "a"]
    assert [(run["seed"], run["value"]) for run in arms["a"]] == [(2, 20), (1, 10)]
    assert all(run["seconds"] >= 0 for run in arms["a"])


def test_a_run_may_say_its_own_seconds() -> None:
    (run,) = run_all({("a", 7): partial(dict, seconds=1.5)}).values()
    assert run == {"seed": 7, "seconds": 1.5}


def test_what_has_ended_is_never_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "x.partial.jsonl"
    first = run_all(every(measured, ["a"], [1, 2]), kept=kept)
    assert len(kept.read_text().splitlines()) == 2
    tasks = every(measured, ["a"], [1, 2]) | {("a", 3): partial(measured, "a", 3)}
    tasks["a", 1] = partial(measured, "broken", 1)
    again = run_all(tasks, kept=kept)
    assert [run["value"] for run in again.values()] == [10, 20, 30]
    assert again["a", 1] == first["a", 1]


def test_what_ended_before_a_crash_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "x.jsonl"
    with pytest.raises(RuntimeError, match="must not run"):
        run_all(every(measured, ["a", "broken"], [1]), kept=kept)
    assert json.loads(kept.read_text())[:2] == ["a", 1]


def test_nothing_begins_after_the_end() -> None:
    assert run_all(every(measured, ["a"], [1]), end=time.monotonic()) == {}
    assert len(run_all(every(measured, ["a"], [1]), end=math.inf)) == 1


@pytest.mark.slow
def test_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    tasks = {("a", seed): partial(dict, seconds=0.0, value=seed) for seed in (3, 1, 2)}
    alone, together = run_all(tasks), run_all(tasks, jobs=2, kept=tmp_path / "x.jsonl")
    assert together == alone and list(together) == list(alone)
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 3


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
