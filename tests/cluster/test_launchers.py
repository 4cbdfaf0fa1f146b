"""DeepSpeed's and Accelerate's own launchers run the generated files, two processes each."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from torch.distributed.launcher.api import LaunchConfig

from .conftest import JOB, REPOSITORY, render_job, with_extras

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(words: list[str], **variables: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        env=environment | {"OMP_NUM_THREADS": "1", "NBKIT_TRACKERS": ""} | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def weights(folder: Path) -> str:
    events = [json.loads(line) for line in (folder / "events.jsonl").open()]
    assert events[0]["ranks"] == 2
    return json.loads((folder / "result.json").read_text())["weights"]


def test_both_end_at_the_same_weights(make_job, tmp_path):
    launch = make_job(backend="zero1", arguments={"steps": 4}, venv=sys.prefix)
    run(["bash", str(launch / "deepspeed.sh"), str(tmp_path / "deepspeed")])
    program = "from accelerate.commands.accelerate_cli import main; main()"
    run(
        [
            *(sys.executable, "-c", program, "launch"),
            *(
                "--config_file",
                str(with_extras(launch) / "accelerate.yaml"),
                "--main_process_port",
                "0",
            ),
            *(str(launch.parent / "train.py"), str(launch / "config.yaml")),
        ],
        NBKIT_RUN_FOLDER=str(tmp_path / "accelerate"),
    )
    assert weights(tmp_path / "deepspeed") == weights(tmp_path / "accelerate")


@pytest.mark.skipif(
    "shutdown_timeout" not in {field.name for field in fields(LaunchConfig)},
    reason="this PyTorch's torchrun always waits 30 s",
)
def test_torchrun_waits_as_long_as_the_job_says(make_job, tmp_path):
    """The script would take 300 s for its step; 3 s after the signal torchrun ends it."""
    job = {"backend": "single", "processes": 1, "signal_seconds": 3, "venv": sys.prefix}
    launch = make_job(**job, arguments={"steps": 2, "seconds_a_step": 300})
    run = tmp_path / "run"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    node = subprocess.Popen(
        ["bash", str(launch / "torchrun.sh"), str(run), ""], cwd=REPOSITORY, env=environment
    )
    try:
        end = time.monotonic() + 300
        while not (run / "state").exists():
            assert time.monotonic() < end, "it did not begin"
            time.sleep(0.1)
        time.sleep(1.0)  # its step has begun
        sent = time.monotonic()
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=28) != 0
        assert time.monotonic() - sent > 2.5
    finally:
        node.kill()
    assert (run / "state").read_text() == "running\n"  # killed: it could not write how it ended


def test_torchrun_tells_why_a_rank_failed_and_keeps_what_each_printed(tmp_path):
    """A tangled script whose values do not fit: its summary shows the sentence, by `@record`."""
    script = REPOSITORY / "cluster_scripts" / "scaling_study" / "train.py"
    content = JOB | {"preflight": True, "arguments": {"rows": 3}, "venv": sys.prefix}
    launch, run = render_job(tmp_path / "job", content, script), tmp_path / "run"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    done = subprocess.run(
        ["bash", str(launch / "torchrun.sh"), str(run)],
        cwd=REPOSITORY,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    summary = done.stderr.partition("Root Cause (first observed failure)")[2]
    assert "ValueError: rows is 3; it must be a multiple of 2 devices" in summary
    (tried,) = (run / "logs" / "ranks" / "preflight").iterdir()
    assert len(list(tried.rglob("stdout.log"))) == 2
    assert "preflight: 2 of cpu on 1 nodes; slowest: copy_gb_s" in done.stdout
    assert len(json.loads((run / "preflight.json").read_text())) == 2
    others = [path for path in (run / "logs" / "ranks").iterdir() if path != tried.parent]
    said = [path.read_text() for path in others[0].rglob("stderr.log")]
    assert len(others) == 1 and len(said) == 2 and all("rows is 3" in text for text in said)
