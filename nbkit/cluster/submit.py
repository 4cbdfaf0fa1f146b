"""The command that starts a job, and what is checked before it: all that can fail, fails here."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nbkit.cluster.job import Job
from nbkit.cluster.job_file import JobError, where
from nbkit.cluster.render import (
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
from nbkit.runs import code_tree
from nbkit.runs.run_folder import LAUNCH_VARIABLE, open_run

# Runs where the training script's imports are: loads Config and lets pydantic judge the values; the
# words for the back-end are judged by nbkit.parallel, and what must fit together, as a batch and a
# number of devices, by the script's own function check(config, devices), if it has one. Both begin
# what they say with the name of the field.
VALIDATE = """
import importlib.util, json, sys
from dataclasses import asdict
from pathlib import Path
import yaml
from pydantic import TypeAdapter, ValidationError
from nbkit.parallel import ParallelConfig
spec = importlib.util.spec_from_file_location("train", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["train"] = module
spec.loader.exec_module(module)
failed = False
SPREAD = ("backend", "precision", "checkpointing", "compile")
for name, devices in json.loads(sys.argv[2]).items():
    try:
        config = TypeAdapter(module.Config).validate_python(yaml.safe_load(Path(name).read_text()))
        values = asdict(config)
        try:
            ParallelConfig(**{field: values[field] for field in SPREAD if field in values})
            getattr(module, "check", lambda config, devices: None)(config, devices)
        except ValueError as error:
            failed = True
            words = str(error).replace("\\n", " ")
            print(json.dumps([name, words.split()[0].rstrip(":"), words]))
    except ValidationError as error:
        failed = True
        for found in error.errors():
            allowed = found.get("ctx", {}).get("expected", "")
            says = f"the allowed values are {allowed}" if allowed else found["msg"]
            words = f"Config refuses {found['input']!r}: {says}"
            print(json.dumps([name, str(found["loc"][0]), words]))
sys.exit(3 if failed else 0)
"""


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


def slurm_command(folder: Path, root: Path, run: Path, variant: str = "") -> Submission:
    """The ``sbatch`` command of a job."""
    command = (
        *("sbatch", "--parsable", f"--chdir={root}", f"--output={run}/logs/slurm-%j.out"),
        *(str(run / LAUNCH / "slurm.sbatch"), str(run)),
    )
    files, digest = _scripts(folder, root, run, variant)
    return Submission(command, run, files, digest)


def local_command(
    folder: Path, root: Path, job: Job, run: Path, variant: str = "", launcher: str = "torchrun"
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
    (files, digest), script = _scripts(folder, root, run, variant), run / LAUNCH / f"{launcher}.sh"
    if script not in {file.path for file in files}:
        raise JobError(
            f"--local {launcher}: {script} does not exist: that launcher is for the back-ends of "
            f"ZeRO, and the job's is {job.backend}; take --local torchrun"
        )
    return Submission(("bash", str(script), str(run)), run, files, digest)


def _scripts(folder: Path, root: Path, run: Path, variant: str) -> tuple[tuple[Rendered, ...], str]:
    """The scripts of a run, and the digest of what they say."""
    files = tuple(render(folder, root, variant=variant, to=run / LAUNCH))
    return files, launch_digest(folder, root, variant=variant)


def check_submission(folder: Path, root: Path, job: Job, variant: str, run: Path) -> None:
    """Look at everything that would fail only after hours in the queue.

    Raises:
        JobError: scripts that are not current, values that ``Config`` refuses, a finished run, a
            file where the run folder should be, a name that the scripts cannot hold.

    """
    stale = list(check(folder, render_kept(folder, root)))
    if stale:
        raise JobError("\n".join(stale))
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
    if (run / "job.json").exists() and open_run(run).state == "finished":
        raise JobError(f"{run} holds a finished run; give another --label or --run")
    with tempfile.TemporaryDirectory() as there:
        files = render(folder, root, variant=variant, to=Path(there))
        configs = [file for file in files if file.path.name.startswith("config.")]
        for file in configs:
            write(file)
        names = [str(file.path) for file in configs]
        found = judge(folder / SCRIPT, root, dict.fromkeys(names, job.world_size))
    if found:
        raise JobError("\n".join(_refusals(folder / JOB_FILE, variant, found)))


def judge(script: Path, root: Path, configs: dict[str, int]) -> list[list[str]]:
    """Let the ``Config`` of a training script judge files of values, and its ``check``, if any.

    Args:
        script: defines the class ``Config``; its function ``check(config, devices)`` raises a
            ValueError, beginning with a field's name, where values do not fit together.
        root: of the repository; it runs there.
        configs: files of values, each with the number of processes that its job has.

    Returns:
        for each value that it refuses: the file, the field, and what is wrong.

    Raises:
        JobError: the script cannot be loaded here.

    """
    done = subprocess.run(
        [sys.executable, "-c", VALIDATE, str(script), json.dumps(configs)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 3):
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise JobError(f"{script} cannot be loaded here: {last[0]}")
    # The script may print while it is imported; a finding is a line of JSON.
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]


def _refusals(path: Path, variant: str, found: list[list[str]]) -> list[str]:
    """One line a value that ``Config`` refuses, each once, with its place in the job file."""
    lines = []
    for name, field, says in found:
        stage = Path(name).name.removeprefix("config.").removesuffix("yaml").removesuffix(".")
        place = where(path, stage, field, variant=variant)
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
