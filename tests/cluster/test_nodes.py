"""A real Slurm of three nodes, three daemons of this machine: a job of two of them loses one.

The node vanishes as a machine does that loses its power: its daemon and all that runs on it are
killed at once. The job must go on on the two that are left, and end as an unbroken one.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from bookkit.jobs.submit import slurm_command, submit
from nbkit.runs.metrics_file import read_rows

from .conftest import REPOSITORY
from .slurm_cluster import REQUIRED

PROGRAMS = ("sbatch", "slurmd", "slurmctld", "munged")
MISSING = [name for name in PROGRAMS if shutil.which(name, path="/usr/bin:/usr/sbin") is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("alone"),
    pytest.mark.skipif(
        not REQUIRED and bool(MISSING or os.geteuid()),
        reason="it needs root and Slurm (apt-get install slurm-wlm munge)",
    ),
]
STEPS, NODE = 80, b"SLURMD_NODENAME="


@pytest.fixture
def cluster(monkeypatch):
    """A cluster of its own; the name of a socket's folder must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="nodes") as name:
        folder = Path(name)
        command = [str(REPOSITORY / ".ci" / "slurm")]
        done = subprocess.run([*command, "start", name, "3"], capture_output=True, text=True)
        try:
            assert done.returncode == 0, done.stderr
            monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
            yield folder
        finally:
            subprocess.run(["scancel", "--me"], check=False)
            subprocess.run([*command, "stop", name], check=True)


def run_of(process: Path) -> str:
    """The node whose processes these are, from the environment that Slurm gave them."""
    try:
        words = (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is the kernel's
        return ""
    return next((w.removeprefix(NODE).decode() for w in words if w.startswith(NODE)), "")


def pull_the_plug(cluster: Path, node: str) -> None:
    """Kill the daemon of a node, and all that it has started."""
    daemon = int((cluster / f"slurmd-{node}.pid").read_text())
    stepped = [int(p.name) for p in Path("/proc").glob("[0-9]*") if run_of(p) == node]
    parents = {int((Path("/proc") / str(n) / "stat").read_text().rpartition(")")[2].split()[1])
               for n in stepped}  # fmt: skip
    daemons = {n for n in parents if _name(n).startswith("slurmstepd")}
    assert stepped and daemons, f"nothing of the job runs on {node}"
    for number in (daemon, *daemons, *stepped):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _name(number: int) -> str:
    path = Path("/proc") / str(number) / "comm"
    return path.read_text().strip() if path.exists() else ""


def wait_for(condition, what: str, run: Path, seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s\n{log(run)}"
        time.sleep(0.2)


def log(run: Path) -> str:
    paths = sorted(path for path in (run / "logs").rglob("*") if path.is_file())
    return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')}" for path in paths)


def steps_done(run: Path) -> int:
    rows = read_rows(run / "metrics.jsonl")
    return int(rows[-1]["step"]) if rows else 0


def finished(run: Path) -> bool:
    return (run / "state").exists() and (run / "state").read_text() == "finished\n"


def test_a_job_goes_on_without_the_node_that_vanished(cluster, make_job, tmp_path):
    changes = {"processes": 1, "nodes": 2, "preflight": True, "limits": {"retries": 2}}
    launch = make_job(arguments={"steps": STEPS, "seconds_a_step": 0.2, "save_every": 2}, **changes)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    submit(slurm_command(launch.parent, REPOSITORY, unbroken), REPOSITORY)
    wait_for(lambda: finished(unbroken), "the unbroken run", unbroken)
    submit(slurm_command(launch.parent, REPOSITORY, broken), REPOSITORY)
    wait_for(lambda: steps_done(broken) >= 5, "the first steps", broken)
    assert len(json.loads((broken / "preflight.json").read_text())) == 2
    pull_the_plug(cluster, "127.0.0.2")
    wait_for(lambda: finished(broken), "its end on the nodes that are left", broken)
    results = [json.loads((run / "result.json").read_text()) for run in (unbroken, broken)]
    assert results[0]["weights"] == results[1]["weights"]
    nodes = {one["node"] for one in json.loads((broken / "preflight.json").read_text())}
    assert nodes == {"127.0.0.1", "127.0.0.3"}
    events = [json.loads(line) for line in (broken / "events.jsonl").open()]
    resumed = [event for event in events if event["event"] == "resumed"]
    assert len(resumed) == 1 and resumed[0]["step"] >= 4
