"""The one-node Slurm cluster that the tests submit to, if there is one."""

import os
import shutil
import subprocess

REQUIRED = os.environ.get("NBKIT_REQUIRE_SLURM") == "1"


def missing() -> str:
    """Why nothing can be submitted here, in one line; "" if it can."""
    if shutil.which("sbatch") is None:
        return "Slurm is not installed here (apt-get install slurm-wlm munge)"
    if "SLURM_CONF" not in os.environ:
        return "no Slurm cluster was started for the tests (.ci/slurm start FOLDER)"
    if subprocess.run(["sinfo"], capture_output=True).returncode:
        return f"the Slurm cluster of {os.environ['SLURM_CONF']} does not answer"
    return ""


def output_of(*command: str) -> str:
    """What a command prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def job_state(number: str) -> str:
    """PENDING, RUNNING, COMPLETED …"""
    words = output_of("scontrol", "show", "job", number).split()
    return next(word for word in words if word.startswith("JobState=")).removeprefix("JobState=")
