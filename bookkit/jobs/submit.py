"""The command that starts a job, and what is checked before it: all that can fail, fails here."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bookkit.jobs.job_file import JobError, Settings, where
from bookkit.jobs.judge import judge
from bookkit.jobs.render import (
    JOB_FILE,
    LAUNCH,
    SCRIPT,
    Rendered,
    check,
    launch_digest,
    render,
    render_kept,
    write,
)
from nbkit.cluster.job import Job
from nbkit.runs import code_tree
from nbkit.runs.run_folder import LAUNCH_VARIABLE, open_run


@dataclass(frozen=True)
class Submission:
    """A command, the run folder it writes to, and the scripts that it starts from there."""

    command: tuple[str, ...]
    run: Path
    files: tuple[Rendered, ...] = ()
    digest: str = ""  # of these

    def __str__(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.command)


def slurm_command(
    folder: Path, root: Path, run: Path, variant: str = "", settings: Settings = ()
) -> Submission:
    """The ``sbatch`` command of a job."""
    command = (
        *("sbatch", "--parsable", f"--chdir={root}", f"--output={run}/logs/slurm-%j.out"),
        *(str(run / LAUNCH / "slurm.sbatch"), str(run)),
    )
    files, digest = scripts(folder, root, run, variant, settings)
    return Submission(command, run, files, digest)


def local_command(
    folder: Path,
    root: Path,
    job: Job,
    run: Path,
    variant: str = "",
    launcher: str = "torchrun",
    settings: Settings = (),
) -> Submission:
    """The command that runs a job of one node on this machine.

    Raises:
        JobError: the job has several nodes, or no script for this launcher.

    """
    if job.nodes > 1:
        raise JobError(
            f"{folder / JOB_FILE}: {folder.name} is a job of {job.nodes} nodes, which needs Slurm; "
            "take --local away, or choose a variant of one node"
        )
    files, digest = scripts(folder, root, run, variant, settings)
    script = run / LAUNCH / f"{launcher}.sh"
    if script not in {file.path for file in files}:
        raise JobError(
            f"--local {launcher}: {script} does not exist: that launcher is for the back-ends of "
            f"ZeRO, and the job's is {job.backend}; take --local torchrun"
        )
    return Submission(("bash", str(script), str(run)), run, files, digest)


def scripts(
    folder: Path, root: Path, run: Path, variant: str = "", settings: Settings = ()
) -> tuple[tuple[Rendered, ...], str]:
    """The scripts of a run, and the digest of what they say."""
    files = tuple(render(folder, root, variant=variant, settings=settings, to=run / LAUNCH))
    return files, launch_digest(folder, root, variant=variant, settings=settings)


def check_submission(
    folder: Path, root: Path, job: Job, variant: str, run: Path, settings: Settings = ()
) -> None:
    """Look at everything that would fail only after hours in the queue.

    Raises:
        JobError: scripts that are not current, values that ``Config`` refuses, a finished run, a
            file where the run folder should be, a name that the scripts cannot hold.

    """
    check_kept(folder, root)
    check_run_folder(root, job, run)
    check_values(folder, root, variant, [(job, settings)])


def check_kept(folder: Path, root: Path) -> None:
    """Refuse a job whose kept files are not what its job file gives."""
    stale = list(check(folder, render_kept(folder, root)))
    if stale:
        raise JobError("\n".join(stale))


def check_run_folder(root: Path, job: Job, run: Path) -> None:
    """Refuse a file, a folder with a finished run, and a name that the scripts cannot hold."""
    if any(letter in str(run) + str(root) for letter in "%\\\n"):
        raise JobError(f"{run}: a run folder's name may hold no %, backslash or line break")
    for path in (run, *run.parents):
        if path.exists() and not path.is_dir():
            raise JobError(f"{path} is a file, and the run folder is to be {run}; give another")
    if job.container and any(letter in str(run) + str(root) for letter in ":,"):
        raise JobError(
            f"{run} or {root} holds a colon or a comma, at which a container's binds are cut; "
            "give a run folder without, and keep the repository in such a one"
        )
    if is_finished(run):
        raise JobError(f"{run} holds a finished run; give another --label or --run")


def is_finished(run: Path) -> bool:
    """Whether a folder holds a run that has come to its end."""
    return (run / "job.json").exists() and open_run(run).state == "finished"


def check_values(
    folder: Path, root: Path, variant: str, members: Sequence[tuple[Job, Settings]]
) -> None:
    """Refuse values that the training script's ``Config`` refuses, of one run or of several.

    Args:
        folder: of the job.
        root: of the repository.
        variant: of the job file.
        members: what each run's file gives, and the settings that made it so.

    """
    with tempfile.TemporaryDirectory() as there:
        configs: dict[str, int] = {}
        given: dict[str, Settings] = {}
        for number, (job, settings) in enumerate(members):
            to = Path(there) / str(number)
            for file in render(folder, root, variant=variant, settings=settings, to=to):
                if file.path.name.startswith("config."):
                    write(file)
                    configs[str(file.path)], given[str(file.path)] = job.world_size, settings
        found = judge(folder / SCRIPT, root, configs)
    if found:
        raise JobError("\n".join(_refusals(folder / JOB_FILE, variant, given, found)))


def _refusals(
    path: Path, variant: str, given: dict[str, Settings], found: list[list[str]]
) -> list[str]:
    """One line a value that ``Config`` refuses, each once, with its place in the job file."""
    lines = []
    for name, field, says in found:
        stage = Path(name).name.removeprefix("config.").removesuffix("yaml").removesuffix(".")
        place = where(path, stage, field, variant=variant, settings=given[name])
        lines.append(f"{place}: {says}")
    return list(dict.fromkeys(lines))


def submit(submission: Submission, root: Path) -> str:
    """Hand the job to Slurm; return what it printed.

    Raises:
        JobError: Slurm is not there, or refused; or a script there was edited by hand.

    """
    new, variables = _prepare(submission), _environment(submission, root)
    try:
        done = subprocess.run(
            submission.command, cwd=root, env=variables, stdout=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        _take_back(new)
        raise JobError(
            f"{submission.command[0]} is not installed here; submit where Slurm is, or run the "
            "job on this machine with --local"
        ) from None
    _refuse(submission, done.returncode, new)
    return done.stdout.strip()


def run_here(submission: Submission, root: Path) -> bool:
    """Run the job on this machine, its output on the screen.

    Ctrl-C reaches the script by itself, from the terminal, and SIGTERM is handed on: it saves a
    checkpoint and ends, and only then does this return.

    Returns:
        whether it has finished; False: it was stopped and can go on.

    Raises:
        JobError: it failed; or a script in the run folder was edited by hand.

    """
    from nbkit.runs.preemption import Preempted

    new = [path for path in _prepare(submission) if path.is_dir()]  # its scripts tell what failed
    # Not SIG_IGN: the script would inherit it, and bash cannot trap what it was told to ignore.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(submission.command, cwd=root, env=_environment(submission, root))
    former = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, former)
    if status == Preempted.STATUS:
        return False
    _refuse(submission, status, new)
    return True


def _environment(submission: Submission, root: Path) -> dict[str, str]:
    """This process's variables, and what is submitted: commit, digests of its code and scripts.

    The job compares the code with the files that it finds when it starts, which may be much later.
    """
    variables = dict(os.environ) | {LAUNCH_VARIABLE: submission.digest}
    if code_tree.COMMIT_VARIABLE in os.environ:
        return variables
    return variables | code_tree.origin(root)


def _prepare(submission: Submission) -> list[Path]:
    """Make the run folder, with Slurm's logs and the scripts; return what is new, innermost first.

    Raises:
        JobError: a script there was edited by hand.

    """
    logs, launch = submission.run / "logs", submission.run / LAUNCH
    files = [file.path for file in submission.files]
    new = [path for path in (*files, launch, logs, *logs.parents) if not path.exists()]
    logs.mkdir(parents=True, exist_ok=True)
    for file in submission.files:
        write(file)
    return [path for path in new if path.exists()]


def _take_back(new: list[Path]) -> None:
    """Take away new files, and new folders that hold nothing else."""
    for path in new:
        if not path.is_dir():
            path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


def _refuse(submission: Submission, status: int, new: list[Path]) -> None:
    if status:
        _take_back(new)
        raise JobError(f"it ended with exit status {status}: {submission}")
