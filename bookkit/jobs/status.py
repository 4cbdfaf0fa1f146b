"""How far runs are: from their folders, and from Slurm where there is one."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbkit.runs.run_folder import RunFolder, open_run

HEAD = ("run", "state", "stage", "step", "attempts", "hours", "GPU hours", "cost", "Slurm")


def slurm_states() -> dict[str, str]:
    """The states of this user's jobs by number; empty without a Slurm that answers."""
    if shutil.which("squeue") is None:
        return {}
    done = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%A %T %r"], capture_output=True, text=True
    )
    if done.returncode:
        return {}  # installed, but no cluster is set up here
    lines = (line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip())
    return {number: state.removesuffix(" None") for number, state in lines}


def status_rows(
    runs: Sequence[Path], slurm: Mapping[str, str], root: Path
) -> list[tuple[str, ...]]:
    """A head and one row a run folder; one that cannot be read does not hide the others."""
    rows: list[tuple[str, ...]] = [HEAD]
    for folder in runs:
        path = folder.resolve()
        name = str(path.relative_to(root) if path.is_relative_to(root) else path)
        try:
            rows.append((name, *_cells(open_run(folder), slurm)))
        except (ValueError, OSError) as error:
            cause = " ".join(str(error).split()).replace(f"{root}/", "")
            rows.append((name, f"unreadable: {cause}", *("-" for _ in HEAD[2:])))
    return rows


def _cells(run: RunFolder, slurm: Mapping[str, str]) -> tuple[str, ...]:
    current = next((stage for stage in run.stages if stage.state != "finished"), None)
    stage = current or run.stages[-1]
    number = run.slurm_job
    return (
        *(run.state, stage.name or "-"),
        str(int(stage.rows[-1]["step"])) if stage.rows else "-",
        *(str(run.attempts), f"{run.hours:.2f}", f"{run.gpu_hours:.2f}", run.cost or "-"),
        f"{number} {slurm.get(number, '')}".strip() or "-",
    )
