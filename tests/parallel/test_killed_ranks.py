"""Two real processes, killed while they save: the last good checkpoint stays whole."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from nbkit.parallel.export import newest
from nbkit.parallel.launch import RanksFailedError
from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]


def kill_during_a_save(folder, ranks, delay_s, done):
    """Kill ranks a moment after the folder of the third save or a later one has appeared."""
    while not done.is_set():
        begun = [p.name for p in (folder / "checkpoints").glob("*.new")]
        if any(name >= "step_00000003" for name in begun):
            time.sleep(delay_s)
            for rank in ranks:
                os.kill(int((folder / f"{rank}.pid").read_text()), signal.SIGKILL)
            return
        time.sleep(0.0005)


@pytest.mark.parametrize(
    ("ranks", "delay_s"), [((0, 1), 0.0), ((1,), 0.003), ((0,), 0.01), ((0, 1), 0.02)]
)
def test_a_kill_leaves_the_last_good_checkpoint(ranks, delay_s, tmp_path):
    jobs.warm()
    done = threading.Event()
    killer = threading.Thread(target=kill_during_a_save, args=(tmp_path, ranks, delay_s, done))
    killer.start()
    try:
        with pytest.raises(RanksFailedError, match="a rank failed") as caught:
            jobs.ranks(2, jobs.saves_for_ever, str(tmp_path), timeout_s=600)
    finally:
        done.set()
        killer.join()
    for rank in ranks:  # by our signal, not because time was up
        assert f"rank {rank} was killed by SIGKILL" in str(caught.value)
    number = int(newest(tmp_path).name.partition("_")[2])
    assert number >= 2
    survivor = jobs.prepared("single", weights=77)
    survivor.load(tmp_path)  # the manifest holds; else this raises
    assert jobs.digest(jobs.everything(survivor)) == (tmp_path / f"{number}.digest").read_text()
    jobs.sft_step(survivor, 0)
    survivor.save(tmp_path, number + 1)
    assert newest(tmp_path).name == f"step_{number + 1:08d}"
    assert not list((Path(tmp_path) / "checkpoints").glob("*.new"))
