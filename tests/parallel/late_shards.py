"""What runs in the processes of test_asynchronous: a job whose checkpoints are written late."""

import os
import threading
import time
from pathlib import Path

from nbkit.parallel import ParallelConfig, asynchronous, connect, join
from nbkit.parallel.checkpoint import read_shards
from nbkit.runs.preemption import Preempted
from nbkit.runs.run import Run
from nbkit.runs.unfinished import Unfinished
from tests.parallel import job_loops, jobs


def folders(run):
    return sorted(path.name for path in (Path(run) / "checkpoints").iterdir())


def stage(word):
    jobs.one_thread()
    parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    return job_loops.sft(parallel)


def fit(word, folder, on, kill_at=0, stop_at=0):
    """Train four steps, a checkpoint after each; what the folder held at every step, and the end.

    Args:
        on: whether checkpoints are asynchronous; then no thread gets on before a step has seen
            its folder unnamed.
        kill_at: the process ends there without a word.
        stop_at: the run is told to stop there.

    """
    os.environ[asynchronous.VARIABLE] = "1" if on else "0"
    os.environ["NBKIT_TRACKERS"] = ""
    one, seen, held = stage(word), [], threading.Event()
    plain, hashes, settled = one.step, asynchronous.own_digests, Unfinished.settle

    def settle(self, *, wait):
        if wait:  # the saver of the next checkpoint, or the end
            held.set()
        return settled(self, wait=wait)

    def waiting(*args):
        held.wait(60)
        return hashes(*args)

    asynchronous.own_digests, Unfinished.settle = waiting, settle
    with Run.start({}, seeds=(), folder=folder) as run:

        def step():
            held.clear()
            found = plain()
            seen.append(folders(folder) if (Path(folder) / "checkpoints").exists() else [])
            if len(one.history) == kill_at:
                os._exit(7)
            if len(one.history) == stop_at:
                run.stop("a test")
            return found

        one.step = step
        try:
            one.fit(run, save_every=1)
            run.finish({})
        except Preempted:
            seen.append(folders(folder))
    asynchronous.own_digests, Unfinished.settle = hashes, settled
    return seen, [row["loss"] for row in one.history], job_loops.ends(one)[1]


def read_step(word, folder, step):
    """The weights of a checkpoint."""
    one = stage(word)
    read_shards(one.parallel, Path(folder) / "checkpoints" / f"step_{step:08d}" / "shards")
    return job_loops.ends(one)[1]


def failing(word, folder):
    """What a run says whose disk is full when the thread writes."""
    os.environ[asynchronous.VARIABLE] = "1"
    os.environ["NBKIT_TRACKERS"] = ""
    one = stage(word)

    def full(*args):
        raise OSError(28, "No space left on device")

    asynchronous.own_digests = full
    try:
        with Run.start({}, seeds=(), folder=folder) as run:
            one.fit(run, save_every=2)
            run.finish({})
    except OSError as error:
        time.sleep(0.1)
        return str(error), folders(folder), (Path(folder) / "state").read_text()
    return "nothing", [], ""
