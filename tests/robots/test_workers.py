"""What the processes that draw leave behind when something goes wrong: nothing."""

import multiprocessing as mp
import os
import signal
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nbkit.envs import workers as module
from nbkit.envs.rendering import NoRenderer, choose_backend
from nbkit.envs.workers import PixelWorkers
from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(41)]
STILL = torch.zeros(2, 2)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the shared memory that a test makes; at its end, no child and no memory is left.

    The processes come from the fork server, which has no driver open either and has imported torch;
    `test_worker_processes_give_the_frames_of_one_process` starts them as a reader does.
    """
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")
    names: list[str] = []

    def noted(*arguments: Any, **settings: Any) -> SharedMemory:
        memory = SharedMemory(*arguments, **settings)
        names.append(memory.name)
        return memory

    monkeypatch.setattr(module, "SharedMemory", noted)
    jobs.warm()
    served = SimpleNamespace(get_context=lambda _: mp.get_context("forkserver"))
    monkeypatch.setattr(module, "mp", served)
    before = set(mp.active_children())
    yield names
    assert set(mp.active_children()) <= before
    assert len(names) == 1
    with pytest.raises(FileNotFoundError):
        SharedMemory(name=names[0])


def two() -> PixelWorkers:
    workers = PixelWorkers(2, 1, size=40)
    workers.reset(0)
    return workers


def kill(workers: PixelWorkers) -> None:
    process = workers._processes[0]
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_a_bad_setting_leaves_nothing_behind(made):
    with pytest.raises(RuntimeError, match="reward must be one of"):
        PixelWorkers(2, 1, size=40, reward="nonsense")


def test_a_killed_process_is_named_and_close_ends_the_other(made):
    workers = two()
    kill(workers)
    with pytest.raises(RuntimeError, match="process 0 died without a word"):
        workers.step(STILL)
    with pytest.raises(RuntimeError, match="after a process failed"):
        workers.step(STILL)
    workers.close()


def test_a_process_killed_before_close(made):
    workers = two()
    kill(workers)
    workers.close()


def test_a_process_that_raised_is_told_and_close_frees_everything(made):
    workers = two()
    with pytest.raises(RuntimeError, match=r"(?s)process 0 failed:.*diverged"):
        workers.step(torch.full((2, 2), np.nan))
    for process in workers._processes:
        process.join()
    workers.close()
    workers.close()


def test_the_last_word_of_a_process_that_is_gone_is_heard(made):
    workers = two()
    workers._views["actions"][:] = np.nan
    workers._pipes[0].send("step")
    workers._processes[0].join()
    with pytest.raises(RuntimeError, match=r"(?s)process 0 failed:.*diverged"):
        workers.step(STILL)
    workers.close()


def test_a_process_that_hangs_is_ended(made, monkeypatch):
    monkeypatch.setattr(module, "END_S", 0.2)
    workers = two()
    os.kill(workers._processes[1].pid, signal.SIGSTOP)  # deaf to terminate, too
    workers.close()


def test_closed_is_closed(made):
    workers = two()
    workers.step(STILL)
    workers.close()
    workers.close()
    with pytest.raises(RuntimeError, match="step was called after close"):
        workers.step(STILL)
    with pytest.raises(RuntimeError, match="reset was called after close"):
        workers.reset(0)
