"""A sweep: runs of one job that differ in some values, queued as one array of Slurm.

Each run has its own folder with its own scripts, as if it had been submitted alone, and can be
resumed, reported and started again alone. The array's script only chooses among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bookkit.jobs.job_file import JobError, Settings, load_job
from bookkit.jobs.render import JOB_FILE, LAUNCH, Rendered, render_sweep, write
from bookkit.jobs.settings import label_of, products
from bookkit.jobs.submit import (
    Submission,
    check_kept,
    check_run_folder,
    check_values,
    is_finished,
    local_command,
    scripts,
)
from nbkit.cluster.job import Job

MOST = 1000  # runs; Slurm's own limit, MaxArraySize, is 1001 unless the cluster says otherwise


@dataclass(frozen=True)
class Sweep:
    """The members of a sweep, and the command that queues them all.

    Attributes:
        job: of one of them.
        members: those that have not finished yet.
        array: queues these.
        finished: how many others there are.

    """

    job: Job
    members: tuple[Submission, ...]
    array: Submission
    finished: int = 0


def make_sweep(
    folder: Path,
    root: Path,
    words: Sequence[str],
    *,
    base: Path,
    variant: str = "",
    at_most: int = 0,
    launcher: str = "",
) -> Sweep:
    """Make a sweep, in memory, and look at everything that would fail only after hours.

    Args:
        folder: of the job.
        root: of the repository.
        words: key=value,value,…; every value of one is combined with every value of the others.
        base: the folder of the sweep; each run lies in it under the name of its values.
        variant: of the job file.
        at_most: so many of them at one time; 0: as many as Slurm lets run.
        launcher: of the members' own commands, where they run on this machine; "": on Slurm.

    Raises:
        JobError: as when a job is submitted; more than ``MOST`` runs; or runs that ask Slurm for
            different things, which no array can.

    """
    every = list(products(words))
    if not words or len(every) > MOST:
        raise JobError(f"a sweep of {len(every)} runs: give --set key=value,… for 1 to {MOST}")
    if len({label_of(one) for one in every}) < len(every):
        raise JobError("--set: two runs of the sweep would have one name; give each value once")
    combined = [one for one in every if not is_finished(base / label_of(one))]
    if not combined:
        raise JobError(f"all {len(every)} runs of the sweep below {base} have finished")
    check_kept(folder, root)
    jobs = [load_job(folder / JOB_FILE, variant=variant, settings=one) for one in combined]
    runs = [base / label_of(one) for one in combined]
    for job, run in zip(jobs, runs, strict=True):
        check_run_folder(root, job, run)
    check_values(folder, root, variant, list(zip(jobs, combined, strict=True)))
    made = [
        _member(folder, root, job, run, variant, one, launcher)
        for job, run, one in zip(jobs, runs, combined, strict=True)
    ]
    heads = [_head(member) for member in made]
    other = next((one for one, head in zip(combined, heads, strict=True) if head != heads[0]), None)
    if other is not None and not launcher:
        raise JobError(
            f"--set {' '.join(other)}: it asks Slurm for other resources than the first run of the "
            "sweep, and an array is one request; submit a sweep for each"
        )
    script = render_sweep(
        folder, root, jobs[0], base / "sweep.sbatch", [(str(m.run), m.digest) for m in made]
    )
    limit = f"%{at_most}" if at_most else ""
    command = (
        *("sbatch", "--parsable", f"--chdir={root}", f"--output={base}/logs/slurm-%A_%a.out"),
        *(f"--array=0-{len(made) - 1}{limit}", str(script.path)),
    )
    array = Submission(command, base, (script,))
    return Sweep(jobs[0], tuple(made), array, len(every) - len(combined))


def prepare_members(sweep: Sweep) -> None:
    """Write the scripts of every run into its folder.

    Raises:
        JobError: a script there was edited by hand.

    """
    for member in sweep.members:
        (member.run / "logs").mkdir(parents=True, exist_ok=True)
        for file in member.files:
            write(file)


def _member(
    folder: Path, root: Path, job: Job, run: Path, variant: str, settings: Settings, launcher: str
) -> Submission:
    if launcher:
        return local_command(folder, root, job, run, variant, launcher, settings)
    files, digest = scripts(folder, root, run, variant, settings)
    return Submission((), run, files, digest)


def _head(member: Submission) -> list[str]:
    """What a run asks Slurm for."""
    script: Rendered = next(
        file for file in member.files if file.path == member.run / LAUNCH / "slurm.sbatch"
    )
    return [line for line in script.text.splitlines() if line.startswith("#SBATCH ")]
