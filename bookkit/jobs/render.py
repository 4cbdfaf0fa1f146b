"""From job.yaml to the files under ``launch/``: scripts, Slurm file, configurations.

A script holds what differs from job to job: resources, environment, and the one command that is
launched. What all share, such as signals, stages, requeues and ports, is in ``driver/``, which they
read from the repository; ``driver/stages.sh`` says why it is bash.

Kept in the repository is what a job's file gives without a variant. A variant is rendered when it
is submitted, into its run folder. Every file says that it is generated and carries the digest of
its text, so that one edited by hand is found and never overwritten; JSON has no comments, so there
only the text itself is compared.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from bookkit.jobs.deepspeed_config import ds_config
from bookkit.jobs.host_memory import host_peak
from bookkit.jobs.job_file import JobError, Settings, load_job, variant_names
from nbkit.cluster.job import SECONDS_AN_HOUR, Job
from nbkit.cluster.quoting import comment, sh
from nbkit.runs.limits import StepLimits
from nbkit.runs.sha256 import text_digest

JOB_FILE, SCRIPT, LAUNCH = "job.yaml", "train.py", "launch"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
MARK = "# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 "
MARK_LINE = re.compile(f"^{re.escape(MARK)}([0-9a-f]{{16}})\n", flags=re.MULTILINE)
MEND = "run `nbkit job render`"

TEMPLATES = Environment(
    loader=PackageLoader("bookkit.jobs"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # shell and YAML, not HTML: every value goes through one of the filters
)
TEMPLATES.filters |= {"sh": sh, "comment": comment}


@dataclass(frozen=True)
class Rendered:
    """A generated file: where it belongs and what it says."""

    path: Path
    text: str

    def state(self) -> str:
        """ "missing", "current", "outdated" (generated earlier) or "edited" (by hand)."""
        if not self.path.exists():
            return "missing"
        there = self.path.read_text(encoding="utf-8")
        if there == self.text:
            return "current"
        if self.path.suffix == ".json":
            return "outdated"
        return "outdated" if is_generated(there) else "edited"


def render(
    folder: Path,
    root: Path,
    *,
    variant: str = "",
    settings: Settings = (),
    to: Path | None = None,
    extras: bool = False,
) -> list[Rendered]:
    """Make the files of a job, in memory.

    Args:
        folder: holds job.yaml and train.py.
        root: of the repository; the scripts run there.
        variant: of those in job.yaml.
        settings: key=value, which replace those of job.yaml.
        to: where the files belong, as RUN/launch; by default ``launch/`` beside job.yaml.
        extras: also what no script reads: accelerate.yaml and, for ZeRO, ds_config.json.

    Raises:
        JobError: job.yaml is wrong, or the folder's name is no name for a job.

    """
    if not NAME.fullmatch(folder.name):
        raise JobError(f"{folder}: a job's folder is named in small letters, digits, - and _")
    script = folder / SCRIPT
    known = script if script.exists() else None
    job = load_job(folder / JOB_FILE, variant=variant, script=known, settings=settings)
    launch = to or folder / LAUNCH
    inside = launch.is_relative_to(root)
    here = '"$(dirname -- "${BASH_SOURCE[0]}")"'
    values = {
        "job": job,
        "name": folder.name,
        "job_folder": _from_root(folder, root),
        "launch_folder": _from_root(launch, root),
        "root": f"{here}/{sh(os.path.relpath(root, launch))}" if inside else sh(root),
        "facts": json.dumps(facts(job, folder.name, variant, settings)),
        "memory": memory(job),
        "budget_comment": budget_comment(job),
        "step_limits": step_limits(job),
        "mark": MARK,
    }
    names = ["torchrun.sh", "slurm.sbatch"]
    names += ["deepspeed.sh"] if job.is_deepspeed else []
    names += ["accelerate.yaml"] if extras else []
    files = [
        Rendered(launch / name, _signed(TEMPLATES.get_template(f"{name}.j2").render(values)))
        for name in names
    ]
    if extras and job.is_deepspeed:
        text = json.dumps(ds_config(job), indent=2) + "\n"
        files.append(Rendered(launch / "ds_config.json", text))
    for stage in job.stage_names:
        text = yaml.safe_dump(job.values(stage), sort_keys=False, allow_unicode=True, width=96)
        path = launch / (f"config.{stage}.yaml" if stage else "config.yaml")
        files.append(Rendered(path, _signed(f"{MARK}\n{text}")))
    return files


def render_sweep(
    folder: Path, root: Path, job: Job, path: Path, runs: Sequence[tuple[str, str]]
) -> Rendered:
    """The script of an array of runs.

    Args:
        folder: of the job.
        root: of the repository.
        job: of one of them; all ask for the same resources.
        path: of the script.
        runs: the folder of each, and the digest of its scripts.

    """
    values = {"job": job, "name": folder.name, "mark": MARK, "runs": runs, "memory": memory(job)}
    return Rendered(path, _signed(TEMPLATES.get_template("sweep.sbatch.j2").render(values)))


def memory(job: Job) -> str | None:
    """What the job asks Slurm for a node; None: the cluster's default."""
    peak = host_peak(job)
    counted = None if peak is None else f"{peak.slurm_gib}G"
    return job.slurm.memory or counted


def launch_digest(folder: Path, root: Path, *, variant: str = "", settings: Settings = ()) -> str:
    """One digest of a job's scripts and configurations, for the stamp of a run.

    It is that of the files as they would be kept beside job.yaml, wherever the run's own belong.
    """
    files = render(folder, root, variant=variant, settings=settings)
    return _digest("".join(file.text for file in files))


def render_kept(folder: Path, root: Path) -> list[Rendered]:
    """Make the files of a job that the repository keeps: those without a variant.

    Raises:
        JobError: job.yaml is wrong, in a variant or outside.

    """
    for variant in variant_names(folder / JOB_FILE):
        if not NAME.fullmatch(variant):
            raise JobError(
                f"{folder / JOB_FILE}: variant {variant!r}: name it in small letters, digits, - "
                "and _"
            )
        render(folder, root, variant=variant)
    return render(folder, root)


def write(file: Rendered) -> bool:
    """Write a file, unless it is current already; return whether it was written.

    Raises:
        JobError: the file there was edited by hand.

    """
    state = file.state()
    if state == "current":
        return False
    if state == "edited":
        raise JobError(
            f"{file.path} was edited by hand; take the edit into job.yaml or the template, delete "
            f"the file and {MEND}"
        )
    file.path.parent.mkdir(parents=True, exist_ok=True)
    new = file.path.with_name(file.path.name + ".new")
    new.write_text(file.text, encoding="utf-8")
    new.replace(file.path)
    return True


def check(folder: Path, files: list[Rendered]) -> Iterator[str]:
    """Name what under ``launch/`` is not what job.yaml gives."""
    problems = {
        "missing": f"does not exist; {MEND}",
        "outdated": f"is not what job.yaml gives now; {MEND}",
        "edited": "was edited by hand; it is generated: take the edit into job.yaml",
    }
    for file in files:
        state = file.state()
        if state in problems:
            yield f"{file.path}: {problems[state]}"
    known = {file.path for file in files}
    for path in sorted((folder / LAUNCH).rglob("*")):
        if path.is_file() and path not in known:
            yield f"{path}: job.yaml gives no such file; delete it"
    if not (folder / SCRIPT).exists():
        yield f"{folder / SCRIPT}: does not exist; tag its chapter's cells and run `nbkit tangle`"


def budget_comment(job: Job) -> str:
    """What the job can cost at worst, in words."""
    hours = job.worst_case_seconds / SECONDS_AN_HOUR
    words = f", {hours:g} hours in all"
    if job.gpus:
        gpu_hours = hours * job.gpus * job.nodes
        words += f" ({gpu_hours:g} GPU hours"
        if job.limits.price_per_gpu_hour is not None:
            cost = gpu_hours * job.limits.price_per_gpu_hour
            words += f", {cost:.2f} {job.limits.currency}"
        words += ")"
    return words


def step_limits(job: Job) -> str:
    """The limits of steps in a row, as ``nbkit.runs.limits`` reads them; "": its own."""
    limits = StepLimits(job.limits.silent_steps, job.limits.bad_batches)
    if limits == StepLimits():
        return ""
    return ",".join(f"{name}={value}" for name, value in asdict(limits).items())


def facts(job: Job, name: str, variant: str, settings: Settings = ()) -> dict[str, Any]:
    """What a run folder keeps of the job, so that status and report know its name and price."""
    return {
        "job": name,
        "variant": variant,
        **({"settings": list(settings)} if settings else {}),
        "stages": list(job.stage_names),
        "gpus": job.gpus * job.nodes,
        "price_per_gpu_hour": job.limits.price_per_gpu_hour,
        "currency": job.limits.currency,
    }


def is_generated(text: str) -> bool:
    """Whether a file is as `nbkit job render` once wrote it."""
    found = MARK_LINE.search(text)
    return found is not None and _digest(MARK_LINE.sub(f"{MARK}\n", text)) == found.group(1)


def _signed(text: str) -> str:
    return text.replace(f"{MARK}\n", f"{MARK}{_digest(text)}\n", 1)


def _digest(text: str) -> str:
    return text_digest(text, 16)


def _from_root(path: Path, root: Path) -> str:
    """Name a path as the scripts do, which run in the root."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
