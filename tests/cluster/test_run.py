"""The run folder: what is written, what stopping and resuming do, what is refused."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nbkit.runs.checkpoints import newest_step
from nbkit.runs.metrics_file import append_row, cut_after, read_rows
from nbkit.runs.preemption import Preempted, Preemption
from nbkit.runs.run import Run, read_state

from .tiny_train import Config, main

TINY = Path(__file__).with_name("tiny_train.py")


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """The event files have a test of their own; importing TensorBoard takes seconds."""
    monkeypatch.setenv("NBKIT_TRACKERS", "")


def losses(folder: Path) -> list[float]:
    return [row["loss"] for row in read_rows(folder / "metrics.jsonl")]


def config(folder: Path, **changes) -> Config:
    return Config(run_folder=str(folder), **changes)


def test_a_run_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(Config())["loss"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_folder_holds_what_the_book_promises(tmp_path):
    result = main(config(tmp_path / "run"))
    folder = tmp_path / "run"
    assert read_state(folder) == "finished"
    assert json.loads((folder / "config.json").read_text())["steps"] == 8
    stored = json.loads((folder / "result.json").read_text())
    assert stored["weights"] == result["weights"]
    assert stored["stamp"] == json.loads((folder / "stamp.json").read_text())
    assert stored["stamp"]["seeds"] == [0] and stored["stamp"]["device_name"]
    rows = read_rows(folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert [path.name for path in sorted((folder / "checkpoints").iterdir())] == [
        "step_00000003",
        "step_00000006",
    ]
    events = [json.loads(line)["event"] for line in (folder / "events.jsonl").open()]
    assert events == ["running", "checkpoint", "checkpoint", "finished"]


@pytest.mark.parametrize("stop_at", [1, 4, 6, 8])
def test_stopped_and_resumed_equals_unbroken(tmp_path, stop_at):
    unbroken = main(config(tmp_path / "a"))
    with pytest.raises(Preempted, match=f"after step {stop_at} .SIGUSR1") as stopped:
        main(config(tmp_path / "b", stop_at=stop_at))
    assert stopped.value.code == 75
    assert read_state(tmp_path / "b") == "preempted"
    assert newest_step(tmp_path / "b" / "checkpoints") == stop_at
    resumed = main(config(tmp_path / "b"))
    assert resumed["weights"] == unbroken["weights"]
    assert losses(tmp_path / "b") == losses(tmp_path / "a")


@pytest.mark.slow
def test_killed_run_resumes_from_its_last_checkpoint(tmp_path):
    unbroken = main(config(tmp_path / "a"))
    given = tmp_path / "config.yaml"
    given.write_text(f"run_folder: {tmp_path / 'b'}\ncrash_at: 5\n")
    killed = subprocess.run([sys.executable, "-m", "tests.cluster.tiny_train", str(given)])
    assert killed.returncode == -9
    assert len(losses(tmp_path / "b")) == 5 and newest_step(tmp_path / "b" / "checkpoints") == 3
    assert main(config(tmp_path / "b"))["weights"] == unbroken["weights"]
    assert losses(tmp_path / "b") == losses(tmp_path / "a")


def test_half_written_checkpoint_is_passed_over(tmp_path):
    with pytest.raises(Preempted):
        main(config(tmp_path, stop_at=4))
    (tmp_path / "checkpoints" / "step_00000007.new").mkdir()
    (tmp_path / "checkpoints" / "step_00000007.new" / "state.pt").write_bytes(b"half")
    assert newest_step(tmp_path / "checkpoints") == 4
    main(config(tmp_path))


def test_rows_after_a_checkpoint_that_proves_broken_are_forgotten(tmp_path):
    unbroken = main(config(tmp_path / "unbroken"))
    folder = tmp_path / "run"
    with pytest.raises(Preempted):
        main(config(folder, stop_at=7))
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    content = (newest / "state.pt").read_bytes()
    (newest / "state.pt").write_bytes(b"\0" * len(content))  # the size is right
    with pytest.warns(match=newest.name):
        again = main(config(folder))
    assert again["weights"] == unbroken["weights"]
    assert [row["step"] for row in read_rows(folder / "metrics.jsonl")] == list(range(1, 9))
    assert losses(folder) == losses(tmp_path / "unbroken")


def test_stop_file_asks_to_stop_and_nothing_else_does(tmp_path):
    asked = Preemption(tmp_path / "STOP")
    assert asked.reason is None
    (tmp_path / "STOP").touch()
    assert asked.reason == "STOP file"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_signals_are_noted_and_given_back(number):
    before = signal.getsignal(number)
    asked = Preemption()
    asked.install()
    os.kill(os.getpid(), number)
    assert asked.reason == signal.Signals(number).name
    asked.restore()
    assert signal.getsignal(number) == before


def test_a_stage_starts_from_the_output_of_a_finished_one(tmp_path):
    with (
        pytest.raises(ValueError, match="stage 'sft' makes, which has not finished"),
        Run.start({}, seeds=(), stage="ppo", folder=tmp_path) as run,
    ):
        run.input("sft")
    assert read_state(tmp_path / "ppo") == "failed"
    main(config(tmp_path, stage="sft"))
    with Run.start({}, seeds=(), stage="ppo", folder=tmp_path) as run:
        assert torch.load(run.input("sft") / "model.pt", weights_only=True)["weight"].shape == (
            1,
            4,
        )
        run.finish({})
    assert read_state(tmp_path / "ppo") == "finished"


def test_refusals_name_the_mend(tmp_path):
    with pytest.raises(Preempted):
        main(config(tmp_path, stop_at=4))
    with pytest.raises(ValueError, match=r"another configuration \(learning_rate\)"):
        main(config(tmp_path, learning_rate=0.1))
    main(config(tmp_path))
    with pytest.raises(ValueError, match="finished already"):
        main(config(tmp_path))
    with pytest.raises(ValueError, match="needs a run folder"):
        _ = Run.start({}, seeds=()).output
    with pytest.raises(ValueError, match="state= or write="):
        Run.start({}, seeds=()).checkpoint(1, every=1)


def test_two_processes_cannot_write_to_one_folder(tmp_path):
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        with pytest.raises(RuntimeError, match="another process writes"):
            Run.start({}, seeds=(), folder=tmp_path)
        run.finish({})


def test_ranks_without_a_group_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="not initialised"):
        Run.start({}, seeds=())


def test_a_loop_without_finish_counts_as_failed(tmp_path):
    with Run.start({}, seeds=(), folder=tmp_path):
        pass
    assert read_state(tmp_path) == "failed"
    with pytest.raises(ZeroDivisionError), Run.start({}, seeds=(), folder=tmp_path):
        _ = 1 / 0
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").open()]
    assert "ZeroDivisionError" in events[-1]["error"]


def test_files_of_the_trainer_s_own(tmp_path):
    def write(folder: Path) -> None:
        (folder / "mine").write_text("7")

    with pytest.raises(Preempted), Run.start({}, seeds=(), folder=tmp_path) as run:
        (tmp_path / "STOP").touch()
        run.checkpoint(7, write=write, every=0)
    (tmp_path / "STOP").unlink()
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        found = run.resume()
        assert found is not None and (found.folder / "mine").read_text() == "7"
        assert found.step == 7 and found.state == {}
        run.finish({})


def test_metrics_survive_a_cut_line_and_odd_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_row(path, {"step": 1, "loss": math.nan})
    append_row(path, {"step": 2, "loss": math.inf})
    with path.open("a") as file:
        file.write('{"step": 3, "lo')
    assert math.isnan(read_rows(path)[0]["loss"]) and read_rows(path)[1]["loss"] == math.inf
    assert [row["step"] for row in cut_after(path, 1)] == [1]
    assert [row["step"] for row in read_rows(path)] == [1]
    path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2"):
        read_rows(path)


def test_phases_are_timed_and_sum_to_less_than_the_step():
    run = Run.start({}, seeds=())
    for step in (1, 2):
        with run.timed("generate"):
            sum(range(10_000))
        with run.timed("update"):
            sum(range(10_000))
        run.log(step, {})
    for row in run.history:
        assert 0 < row["seconds/generate"] + row["seconds/update"] <= row["seconds/step"]
