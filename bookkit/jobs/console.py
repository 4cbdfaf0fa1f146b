"""What the commands for jobs share: their arguments, how a job is found, what is printed."""

from pathlib import Path
from typing import Annotated

import typer

from nbkit.errors import UserError

JobName = Annotated[str, typer.Argument(help="The job: a folder of cluster_scripts, or a path.")]
Variant = Annotated[str, typer.Option(help="One of `variants` in job.yaml.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value, instead of job.yaml's; may be given several times."),
]
FOLDER = "cluster_scripts"
STOPPED = 75  # a job on this machine was stopped and can go on, as its script says itself


def job_folders(root: Path) -> list[Path]:
    """All folders with a job.yaml."""
    return sorted(path.parent for path in (root / FOLDER).glob("*/job.yaml"))


def job_folder(root: Path, job: str) -> Path:
    """The folder of a job, by its name or path.

    Raises:
        UserError: there is none.

    """
    for path in (root / FOLDER / job, Path(job).resolve()):
        if (path / "job.yaml").is_file():
            return path
    known = ", ".join(path.name for path in job_folders(root)) or "none"
    raise UserError(f"there is no job {job!r} with a job.yaml; the jobs are: {known}")


def known_launcher(name: str) -> str:
    """Check the name of a launcher.

    Raises:
        UserError: it is neither torchrun nor deepspeed.

    """
    if name not in ("torchrun", "deepspeed"):
        raise UserError(f"--local {name}: the launchers are torchrun and deepspeed")
    return name


def shorten(text: str, root: Path) -> str:
    """Name files from the root."""
    return text.replace(f"{root}/", "")


def say(line: str) -> None:
    """Print one line at once."""
    typer.echo(line)
