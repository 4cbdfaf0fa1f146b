"""The jobs of the book run to their end here, each at its tiny size with two processes."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from bookkit.jobs.commands import job_folders
from bookkit.jobs.report import report
from nbkit.runs.run_folder import open_run
from tests.parallel import jobs

from .conftest import JOB, REPOSITORY, render_job
from .train_scripts import start_script

JOBS = job_folders(REPOSITORY)

# The back-end that two processes use here, and the stages of the tiny size.
TINY: dict[str, dict[str, Any]] = {
    "dpo_7b": {"backend": "ddp"},
    "grpo_gsm8k": {"backend": "ddp", "stages": ["sft", "grpo"]},
    "ppo_manipulation": {"backend": "ddp"},
    "rlhf_7b": {"backend": "fsdp2", "stages": ["sft", "reward", "ppo"]},
    "scaling_study": {"backend": "ddp", "stages": ["grpo", "ppo"]},
    "sft_7b": {"backend": "fsdp2"},
}
# Started by torchrun; the others' scripts in processes that have imported already. The order of
# several stages is the launcher script's, and test_launch.py's.
LAUNCHED = "sft_7b"


def test_every_job_is_known_to_these_tests():
    names = [folder.name for folder in JOBS]
    assert sorted(TINY) == names, "a new job? name its back-end and stages in TINY, above"


def rendered(name: str, tmp_path: Path) -> Path:
    """The launch folder of the committed train.py, with its Config's defaults, two processes."""
    stages = [{"name": stage} for stage in TINY[name].get("stages", [])]
    job = JOB | {"backend": TINY[name]["backend"], "stages": stages, "venv": ".venv"}
    script = REPOSITORY / "cluster_scripts" / name / "train.py"
    return render_job(tmp_path / name, job, script=script)


def finished_and_reported(folder: Path, tmp_path: Path) -> None:
    run = open_run(folder)
    assert run.state == "finished"
    for stage in run.stages:
        assert stage.rows, f"stage {stage.name} has logged nothing"
        assert stage.events[0]["ranks"] == 2
    written = report(run, tmp_path / "results")
    result = json.loads(written[0].read_text())
    assert result["device_name"] and result["stamp"]["commit"]
    assert all(Path(path).stat().st_size < 150_000 for path in written)


@pytest.mark.slow
def test_a_job_runs_with_two_processes_as_it_is_launched_and_reports(tmp_path):
    launch = rendered(LAUNCHED, tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    done = subprocess.run(
        ["bash", str(launch / "torchrun.sh"), str(tmp_path / "run")],
        cwd=REPOSITORY,
        env=environment | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    finished_and_reported(tmp_path / "run", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TINY.keys() - {LAUNCHED}))
def test_it_runs_with_two_processes_and_reports(name, tmp_path):
    """Each stage's script, from its first line to its last, under the variables of torchrun."""
    launch, run = rendered(name, tmp_path), tmp_path / "run"
    begun = int(time.time())
    for config in sorted(launch.glob("config*.yaml"), key=lambda path: place(path, name)):
        jobs.ranks(2, start_script, str(launch.parent / "train.py"), str(config), str(run))
    (facts,) = re.findall(r"'(\{\"job\".*\})'", (launch / "torchrun.sh").read_text())
    (run / "job.json").write_text(facts)
    (run / "attempts").mkdir()
    (run / "attempts" / "0").write_text(f"{begun} {int(time.time())}\n")
    finished_and_reported(run, tmp_path)


def place(config: Path, name: str) -> int:
    """Of a stage among those of its job."""
    stages = TINY[name].get("stages", [""])
    return stages.index(config.name.removeprefix("config").removesuffix("yaml").strip("."))


def test_every_script_reads_its_values_in_the_same_lines():
    """So one that torchrun starts stands for all."""
    ends = {
        (folder / "train.py").read_text().partition('\nif __name__ == "__main__":\n')[2]
        for folder in JOBS
    }
    assert len(ends) == 1
    assert "record(main)(TypeAdapter(Config).validate_python(given))" in ends.pop()
