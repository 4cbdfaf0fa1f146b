"""A real Slurm: rendered jobs are submitted, preempted, requeued, and end as unbroken ones do.

Two jobs of two data-parallel processes each run side by side on the one node. One of them gets its
signal in the middle; it saves, requeues itself, resumes, and must reach the weights of the other.
"""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from bookkit.jobs.submit import slurm_command, submit
from nbkit.runs.metrics_file import read_rows

from .conftest import REPOSITORY
from .slurm_cluster import REQUIRED, job_state, missing, output_of

REASON = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(REASON) and not REQUIRED, reason=REASON),
]
STEPS = 60


@pytest.fixture(autouse=True)
def slurm():
    assert not REASON, REASON


def start(launch: Path, run: Path) -> str:
    """Submit as `nbkit job submit --yes` does; returns the job's number."""
    return submit(slurm_command(launch.parent, REPOSITORY, run), REPOSITORY)


def wait_for(condition, what: str, seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def steps_done(run: Path) -> int:
    rows = read_rows(run / "metrics.jsonl")
    return int(rows[-1]["step"]) if rows else 0


def log(run: Path) -> str:
    return "\n".join(path.read_text() for path in sorted((run / "logs").glob("slurm-*")))


def test_preempted_requeued_and_resumed_beside_an_unbroken_run(make_job, tmp_path):
    arguments = {"steps": STEPS, "seconds_a_step": 0.1, "save_every": 25}
    launch = make_job(arguments=arguments, limits={"requeues": 1})
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    jobs = {run: start(launch, run) for run in (broken, unbroken)}
    try:
        wait_for(lambda: steps_done(broken) >= 3, "the first steps")
        # What Slurm does by itself `signal_seconds` before the end: --signal=B:USR1.
        output_of("scancel", "--signal=USR1", "--batch", jobs[broken])
        both_over = lambda: {job_state(n) for n in jobs.values()} == {"COMPLETED"}  # noqa: E731
        wait_for(both_over, "both jobs' ends")
    finally:
        subprocess.run(["scancel", *jobs.values()], check=False)
    first, second = ((run / "result.json").read_text() for run in (broken, unbroken))
    assert json.loads(first)["weights"] == json.loads(second)["weights"]
    curves = [[row["loss"] for row in read_rows(run / "metrics.jsonl")] for run in jobs]
    assert curves[0] == curves[1] and len(curves[0]) == STEPS

    events = [json.loads(line) for line in (broken / "events.jsonl").open()]
    names = [event["event"] for event in events if event["event"] != "checkpoint"]
    assert names == ["running", "preempted", "running", "resumed", "finished"]
    resumed = next(event for event in events if event["event"] == "resumed")
    assert 3 <= resumed["step"] < STEPS
    assert {event["job"] for event in events} == {jobs[broken]}
    assert events[0]["ranks"] == 2
    assert "its time is up; requeued" in log(broken) and "requeued" not in log(unbroken)
    assert "Restarts=1" in output_of("scontrol", "show", "job", jobs[broken])

    # Side by side on one node, on ports that differ.
    ports = [re.findall(r"rendezvous at \S+:(\d+)", log(run)) for run in jobs]
    assert len(ports[0]) == 2 and len(ports[1]) == 1
    assert not set(ports[0]) & set(ports[1])
    spans = [
        [float(word) for word in path.read_text().split()]
        for run in jobs
        for path in sorted((run / "attempts").glob("[!.]*"))[:1]  # a note cut short has a dot
    ]
    assert max(span[0] for span in spans) < min(span[1] for span in spans)


def test_taken_back_by_the_cluster_it_is_requeued_and_saves_first(make_job, tmp_path):
    """`scontrol requeue` is what preemption does: SIGTERM, some seconds, SIGKILL, the queue."""
    launch = make_job(arguments={"steps": 400, "seconds_a_step": 0.1, "save_every": 0})
    run = tmp_path / "run"
    number = start(launch, run)
    try:
        wait_for(lambda: steps_done(run) >= 3, "the first steps")
        output_of("scontrol", "requeue", number)
        wait_for(lambda: (run / "state").read_text() == "preempted\n", "the checkpoint")
        wait_for(lambda: job_state(number) == "PENDING", "the queue")
    finally:
        subprocess.run(["scancel", number], check=False)
    saved = [json.loads(line) for line in (run / "events.jsonl").open()]
    assert [event["event"] for event in saved] == ["running", "checkpoint", "preempted"]
    assert saved[1]["step"] >= 3
    assert "stopped after step" in log(run)


def test_a_requeue_of_the_cluster_leaves_the_job_its_own(make_job, tmp_path):
    """limits.requeues is 1: the nodes are taken back once, and the job still requeues itself."""
    arguments = {"steps": 4000, "seconds_a_step": 0.1, "save_every": 0}
    launch = make_job(arguments=arguments, limits={"requeues": 1})
    run = tmp_path / "run"
    number = start(launch, run)
    try:
        wait_for(lambda: steps_done(run) >= 3, "the first steps")
        output_of("scontrol", "requeue", number)
        wait_for(lambda: job_state(number) == "PENDING", "the queue")
        before = steps_done(run)
        # Slurm would let it wait for two minutes.
        output_of("scontrol", "update", f"JobId={number}", "StartTime=now")
        wait_for(lambda: steps_done(run) >= before + 3, "steps of the second attempt")
        output_of("scancel", "--signal=USR1", "--batch", number)
        wait_for(lambda: "Restarts=2" in output_of("scontrol", "show", "job", number), "its own")
    finally:
        subprocess.run(["scancel", number], check=False)
    assert (run / "requeues").read_text() == f"{number} 1\n"
    assert log(run).count("its time is up; requeued") == 1
