"""A run that is told to stop while its loop is elsewhere keeps its last step."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch

from nbkit.runs import last_step
from nbkit.runs.checkpoints import read_newest
from nbkit.runs.last_step import LastStep
from nbkit.runs.run import Run

ROOT = Path(__file__).resolve().parents[2]


def test_a_stop_during_an_evaluation_loses_at_most_a_step(tmp_path):
    """Killed in the middle of it, the run goes on from the last step that it finished."""
    program = textwrap.dedent(f"""
        import random, time
        from nbkit.runs.run import Run
        with Run.start({{"a": 1}}, seeds=(0,), folder={str(tmp_path)!r}) as run:
            for step in range(1, 21):
                drawn = random.random()
                if step == 5:
                    print(drawn, flush=True)
                    time.sleep(300)
                run.checkpoint(step, lambda: {{"step": step, "drawn": drawn}}, every=20)
    """)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        drawn = float(process.stdout.readline())  # in the fifth step
        process.send_signal(signal.SIGUSR1)
        saved = tmp_path / "checkpoints" / "step_00000004"
        for _ in range(600):
            if saved.exists():
                break
            threading.Event().wait(0.1)
        process.kill()
    with Run.start({"a": 1}, seeds=(0,), folder=tmp_path) as run:
        found = run.resume()
        assert found is not None and (found.step, found.state["step"]) == (4, 4)
        assert random.random() == drawn
        run.finish({})


def keeper(written, told):
    return LastStep(told.is_set, lambda *found: written.append(found))


def test_the_copy_is_of_its_own_step():
    written, told = [], threading.Event()
    keep = keeper(written, told)
    weights = torch.zeros(3)
    keep.keep(7, lambda: {"weights": weights})
    weights += 1  # the next update, in place
    keep.start()
    told.set()
    for _ in range(600):
        if written:
            break
        threading.Event().wait(0.05)
    keep.close()
    [(step, state, noted)] = written  # once, however long it is told
    assert step == 7 and state["weights"].tolist() == [0.0] * 3 and "torch" in noted


def test_nothing_is_written_unless_told_or_after_a_newer_checkpoint():
    for tell, forget in ((False, False), (True, True)):
        written, told = [], threading.Event()
        keep = keeper(written, told)
        keep.keep(1, lambda: {"a": 1})
        if forget:
            keep.forget()
        if tell:
            told.set()
        keep.start()
        threading.Event().wait(3 * last_step.LOOK_SECONDS)
        keep.close()
        assert written == []


def test_a_large_state_is_not_copied(monkeypatch):
    monkeypatch.setattr(last_step, "MAX_BYTES", 100)
    written, told = [], threading.Event()
    keep, calls = keeper(written, told), []

    def state():
        calls.append(1)
        return {"layers": [{"weights": torch.zeros(26)}]}

    keep.keep(1, state)
    keep.keep(2, state)
    assert keep._kept is None and len(calls) == 1


def test_copies_that_take_long_are_made_rarely(monkeypatch):
    clock = iter([0.0, 0.0, 1.0, 5.0, 12.0, 13.0])  # made; begun, ended; begun; begun, ended
    monkeypatch.setattr(last_step.time, "monotonic", lambda: next(clock))
    keep = keeper([], threading.Event())
    steps = []
    for step in (1, 2, 3):
        keep.keep(step, lambda step=step: steps.append(step) or {"step": step})
    assert steps == [1, 3]


@pytest.mark.parametrize("stage", ["", "train"])
def test_a_checkpoint_of_its_own_still_ends_the_run(tmp_path, stage):
    with Run.start({}, seeds=(0,), folder=tmp_path, stage=stage) as run:
        run.checkpoint(1, lambda: {"step": 1}, every=2)
        run.checkpoint(2, lambda: {"step": 2}, every=2)
        run.finish({})
    found = read_newest(tmp_path / stage / "checkpoints", {})
    assert found is not None and found.step == 2
