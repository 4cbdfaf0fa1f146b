"""One test a kind of crash: what is left, what the run says, and that it goes on from there."""

import json
import os
import resource
import signal
import subprocess
import time

import pytest
import torch

from nbkit.parallel.launch import RanksFailedError, run_ranks
from nbkit.runs.preemption import Preempted
from nbkit.runs.run import Run

from .test_launch import finish, plan, running, stage_set, start, wait_for  # noqa: F401
from .tiny_train import Config, main

pytestmark = pytest.mark.slow
STEPS = 8


@pytest.fixture(autouse=True)
def no_trackers(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


def weights(folder):
    return json.loads((folder / "result.json").read_text())["weights"]


def train(folder, fault="", wait_s=0.0):
    """The tiny job in a process of two; the second has the fault at its fifth step."""
    torch.set_num_threads(1)
    second = os.environ["RANK"] == "1"
    plain, calls = Run.log, []

    def log(self, *args):
        calls.append(None)
        if second and len(calls) == 5:
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "hangs":
                time.sleep(wait_s)
        plain(self, *args)

    Run.log = log
    if fault == "hangs":
        from datetime import timedelta

        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=2))
    return main(Config(run_folder=folder, steps=STEPS, save_every=2))["weights"]


def unbroken(tmp_path):
    return run_ranks(train, 2, str(tmp_path / "unbroken"), timeout_s=300)[0]


@pytest.mark.parametrize("fault", ["killed", "hangs"])
def test_a_rank_that_dies_or_hangs_ends_the_job_and_the_next_start_goes_on(tmp_path, fault):
    """The others wait for it in an all-reduce, which fails after the group's time."""
    run = tmp_path / "run"
    with pytest.raises(RanksFailedError) as caught:
        run_ranks(train, 2, str(run), fault, 40.0, timeout_s=35.0)
    if fault == "killed":
        assert "rank 1 was killed by SIGKILL" in str(caught.value)
    else:
        assert "rank 0 raised" in str(caught.value) and "Timed out" in str(caught.value)
        assert (run / "state").read_text() == "failed\n"
    assert run_ranks(train, 2, str(run), timeout_s=300) == [unbroken(tmp_path)] * 2


def test_a_disk_that_is_full_fails_the_run_and_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    """The kernel refuses to write more than some bytes to a file, as a full disk does."""
    run, plain = tmp_path / "run", Run.log
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def log(self, step, metrics):
        plain(self, step, metrics)
        if step == 5:
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))

    monkeypatch.setattr(Run, "log", log)
    signal_before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises((OSError, RuntimeError)):
            main(Config(run_folder=str(run), steps=STEPS, save_every=3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, signal_before)
    monkeypatch.undo()
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    there = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert there[0] == "step_00000003" and "step_00000006" not in there
    main(Config(run_folder=str(run), steps=STEPS, save_every=3))
    main(Config(run_folder=str(tmp_path / "unbroken"), steps=STEPS, save_every=3))
    assert weights(run) == weights(tmp_path / "unbroken")


@pytest.mark.parametrize("place", ["/proc/nbkit/run", "/dev/null/run"])
def test_a_run_folder_that_cannot_be_written_is_named(place):
    with pytest.raises(RuntimeError, match=f"^{place} cannot be written .*give the run a folder"):
        main(Config(run_folder=place, steps=1))


def test_a_read_only_run_folder_is_named_by_the_scripts_too(stage_set):  # noqa: F811
    code, output = finish(start(stage_set() / "torchrun.sh", "/proc/nbkit"))
    assert code != 0 and "/proc/nbkit" in output


def test_a_clock_that_steps_changes_no_budget(stage_set, tmp_path, monkeypatch):  # noqa: F811
    """The time that counts is that since the machine was started; the clock only names attempts."""
    launch, run = stage_set(limits={"hours": 1.0}), tmp_path / "run"
    uptime = tmp_path / "uptime"
    uptime.write_text("1000.25 1.0\n")
    monkeypatch.setenv("NBKIT_UPTIME", str(uptime))
    plan(tmp_path, all="wait")
    process = start(launch / "torchrun.sh", run)
    wait_for(running(run))
    uptime.write_text("1090.75 1.0\n")
    (run / "STOP").touch()
    assert finish(process)[0] == 75
    (note,) = (run / "attempts").glob("[!.]*")
    first, last = (int(word) for word in note.read_text().split())
    assert last - first == 90
    # An attempt of before, in which the clock was set back an hour, gives no time away.
    (run / "attempts" / "0").write_text("9000 5400\n")
    (run / "attempts" / "1").write_text("100 3640\n")
    code, output = finish(start(launch / "torchrun.sh", run))
    assert code == 1 and "and 3630 s are spent" in output


def test_a_second_submission_of_a_run_is_refused_and_disturbs_nothing(
    stage_set,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """It looks for two and a half ticks: of a second each, so that a busy machine keeps them."""
    monkeypatch.setenv("NBKIT_CLOCK_SECONDS", "1")
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="wait")
    first = start(launch / "torchrun.sh", run)
    wait_for(running(run))
    facts = (run / "job.json").read_text()
    code, output = finish(start(launch / "torchrun.sh", run))
    assert code == 2 and f"another job writes to {run}; wait for it" in output
    assert (run / "job.json").read_text() == facts and not (run / "STOP").exists()
    assert first.poll() is None
    (run / "STOP").touch()
    assert finish(first)[0] == 75
    assert finish(start(launch / "torchrun.sh", run))[0] == 0


def test_two_processes_that_start_at_one_moment_do_not_both_write(tmp_path):
    """Where both passed the scripts' question, the lock of the stage's folder decides."""
    command = ["flock", "--nonblock", str(tmp_path / "lock"), "sleep", "20"]
    holder = subprocess.Popen(command)
    try:
        wait_for((tmp_path / "lock").exists)
        time.sleep(0.3)
        with pytest.raises(RuntimeError, match="another process writes to"):
            main(Config(run_folder=str(tmp_path), steps=1))
    finally:
        holder.kill()
        holder.wait()


def test_nan_is_skipped_and_a_row_of_them_ends_the_run_resumably(tmp_path):
    """Weights and optimiser are as they were; the batches are kept."""
    from tests.dpo.small import trainer

    one = trainer()
    plain, steps = one.parallel.backward, []

    def backward(loss):
        steps.append(None)
        plain(loss * float("nan") if len(steps) > 2 else loss)

    one.parallel.backward = backward
    with (
        pytest.raises(RuntimeError, match="not finite"),
        Run.start({}, seeds=(), folder=tmp_path) as run,
    ):
        one.fit(run, save_every=1)
    assert [row["skipped"] for row in run.history] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert len(list((tmp_path / "skipped").iterdir())) == 3
    assert (tmp_path / "state").read_text() == "failed\n"
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        again = trainer()
        again.fit(run, save_every=1)
        run.finish({})
    assert again.finished and Preempted.STATUS == 75
