"""A job to play with: tiny_train.py under a job.yaml, in a folder of its own."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bookkit.jobs.render import render, render_kept, write

REPOSITORY = Path(__file__).parents[2]
DRIVER = REPOSITORY / "nbkit" / "cluster" / "driver"
TINY = Path(__file__).with_name("tiny_train.py")
JOB: dict[str, Any] = {
    "description": "A tiny regression on processors.",
    "algorithm": "sft",
    "backend": "ddp",
    "gpus": 0,
    "processes": 2,
    "time": "00:05:00",
    "signal_seconds": 60,
    "trackers": [],
    "slurm": {"cpus_per_process": 1},
}
# The same on GPUs of several nodes.
BIG = JOB | {"backend": "zero3", "gpus": 8, "nodes": 2}
BIG.pop("processes")

MakeJob = Callable[..., Path]


def with_extras(launch: Path) -> Path:
    """A folder with all files of a rendered job, those too that no script reads."""
    for file in render(launch.parent, REPOSITORY, to=launch.parent / "all", extras=True):
        write(file)
    return launch.parent / "all"


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """In the background SIGINT is ignored; programs inherit that, and bash could not trap it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def write_job(folder: Path, content: dict[str, Any], script: Path = TINY) -> Path:
    """A folder with job.yaml and a train.py, by default the tiny one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "train.py").write_text(script.read_text())
    return folder


def render_job(folder: Path, content: dict[str, Any], script: Path = TINY) -> Path:
    """The same with its generated files; returns the folder of these."""
    for file in render_kept(write_job(folder, content, script), REPOSITORY):
        write(file)
    return folder / "launch"


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """Make a job from `JOB` with changes; None takes a field out."""

    def make(name: str = "tiny", base: dict[str, Any] = JOB, **changes: Any) -> Path:
        content = {key: value for key, value in (base | changes).items() if value is not None}
        return render_job(tmp_path / name, json.loads(json.dumps(content)))

    return make
