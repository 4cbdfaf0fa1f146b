"""DeepSpeed's and Accelerate's own launchers run the generated files, two processes each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REPOSITORY

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
            *("--config_file", str(launch / "accelerate.yaml"), "--main_process_port", "0"),
            *(str(launch.parent / "train.py"), str(launch / "config.yaml")),
        ],
        NBKIT_RUN_FOLDER=str(tmp_path / "accelerate"),
    )
    assert weights(tmp_path / "deepspeed") == weights(tmp_path / "accelerate")
