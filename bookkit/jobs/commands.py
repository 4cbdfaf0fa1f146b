"""The commands for cluster jobs: `nbkit job render`, `submit`, `status`, `report`, `prefetch`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bookkit.checkout import find_root
from bookkit.jobs.console import (
    STOPPED,
    JobName,
    Set,
    Variant,
    job_folder,
    job_folders,
    known_launcher,
    say,
    shorten,
)
from bookkit.jobs.sweep_command import sweep
from nbkit.errors import UserError

app = typer.Typer(no_args_is_help=True)
app.command()(sweep)


@app.command()
def render(
    job: Annotated[str | None, typer.Argument(help="The job. Default: all.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; name what is not current, and fail.")
    ] = False,
    variant: Variant = "",
    settings: Set = None,
    to: Annotated[
        Path | None, typer.Option(help="A folder for all files, also those that no script reads.")
    ] = None,
) -> None:
    """Write the scripts and configurations that are kept of a job; with --variant print them."""
    from bookkit.jobs import render as tool
    from bookkit.jobs.job_file import JobError

    root = find_root()
    if variant or to or settings:
        if job is None or check:
            raise UserError(
                "--variant, --set and --to are for one job and not for --check; name the job"
            )
        render_one(job_folder(root, job), root, variant, to, settings or ())
        return
    folders = [job_folder(root, job)] if job else job_folders(root)
    problems: list[str] = []
    count = 0
    for folder in folders:
        try:
            files = tool.render_kept(folder, root)
            count += len(files)
            if check:
                problems += tool.check(folder, files)
                continue
            for file in files:
                if tool.write(file):
                    say(f"{file.path.relative_to(folder.parent)}: written")
        except JobError as error:
            problems.append(str(error))
    if problems:
        raise UserError(shorten("\n".join(problems), root))
    says = "are what their job files give" if check else "are up to date"
    say(f"{count} files of {len(folders)} jobs {says}")


def render_one(
    folder: Path, root: Path, variant: str, to: Path | None, settings: Sequence[str] = ()
) -> None:
    """Write all files of a job or a variant to a folder, or print those that its run would get."""
    from bookkit.jobs.render import render, write

    target = None if to is None else to.resolve()
    try:
        files = render(
            folder, root, variant=variant, settings=settings, to=target, extras=to is not None
        )
        if to is None:
            for file in files:
                say(f"# ---- {file.path.name}\n{file.text}")
            return
        for file in files:
            write(file)
            say(f"{to / file.path.name}")
    except ValueError as error:
        raise UserError(shorten(str(error), root)) from error


@app.command()
def submit(
    job: JobName,
    variant: Variant = "",
    settings: Set = None,
    label: Annotated[str, typer.Option(help="Names the run folder, runs/JOB/LABEL.")] = "",
    run: Annotated[Path | None, typer.Option(help="The run folder, instead.")] = None,
    local: Annotated[
        str, typer.Option(help="Run here instead of on Slurm: torchrun or deepspeed.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Otherwise only show it.")] = False,
) -> None:
    """Check a job and show the exact command that starts it; with --yes, start it."""
    from bookkit.jobs.job_file import load_job
    from bookkit.jobs.render import JOB_FILE, budget_comment
    from bookkit.jobs.settings import label_of
    from bookkit.jobs.submit import check_submission, local_command, run_here, slurm_command
    from bookkit.jobs.submit import submit as start

    root = find_root()
    folder = job_folder(root, job)
    given = settings or ()
    try:
        loaded = load_job(folder / JOB_FILE, variant=variant, settings=given)
        named = label or "_".join(filter(None, (variant, label_of(given)))) or "default"
        target = (run or root / "runs" / folder.name / named).resolve()
        check_submission(folder, root, loaded, variant, target, given)
        if local:
            launcher = known_launcher(local)
            command = local_command(folder, root, loaded, target, variant, launcher, given)
        else:
            command = slurm_command(folder, root, target, variant, given)
        limits = f"{loaded.limits.requeues} requeues{budget_comment(loaded)}"
        say(f"# {folder.name}: {loaded.nodes} x {loaded.gpus} GPUs, {loaded.time}; {limits}")
        say(str(command))
        if not yes:
            say(
                "# Nothing was started: this was a dry run. Add --yes to write the scripts into "
                "the run folder and start it."
            )
            return
        if not local:
            say(start(command, root))
        elif not run_here(command, root):
            say("# Stopped; its checkpoint is saved, and the same command goes on from there.")
            raise typer.Exit(STOPPED)
    except ValueError as error:
        raise UserError(shorten(str(error), root)) from error
    say(f"# See how it goes: nbkit job status {target}")


@app.command()
def origin() -> None:
    """Print what a copy of this commit needs: export it where the copy runs, for its stamps."""
    from nbkit.runs import code_tree

    found = code_tree.origin(find_root())
    if not found:
        raise UserError("this is no checkout of git, so no commit can be named")
    for variable, value in found.items():
        say(f"export {variable}={value}")


@app.command()
def status(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders. Default: all below runs.")
    ] = None,
) -> None:
    """Say of each run how far it is, what it has cost, and what Slurm says of it."""
    from bookkit.jobs.status import slurm_states, status_rows
    from bookkit.jobs.table import text_table
    from nbkit.runs.run_folder import find_runs, is_run

    root = find_root()
    for path in runs or ():
        if not is_run(path):
            raise UserError(f"{path} is no run folder: it holds neither job.json nor config.json")
    folders = runs or find_runs(root / "runs")
    if not folders:
        raise UserError("there is no run folder below runs; `nbkit job submit JOB` makes one")
    say(text_table(status_rows(folders, slurm_states(), root)))


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    label: Annotated[str, typer.Option(help="cluster_scripts/JOB/results/LABEL.")] = "",
    job: Annotated[str, typer.Option(help="The job, if no launcher wrote the folder.")] = "",
) -> None:
    """Make plots and the small stamped result.json that the book keeps of a run."""
    from bookkit.jobs.report import report as write
    from nbkit.runs.run_folder import open_run

    root = find_root()
    try:
        folder = open_run(run)
        name = job or folder.facts.get("job", "")
        if not name:
            raise UserError(f"{run} does not say which job it is of; give --job NAME")
        label = label or folder.facts.get("variant", "") or run.resolve().name
        for path in write(folder, job_folder(root, name) / "results" / label):
            say(shorten(str(path), root))
    except ValueError as error:
        raise UserError(str(error)) from error


@app.command()
def prefetch(
    job: JobName,
    variant: Variant = "",
    cache: Annotated[
        Path | None, typer.Option(help="The cache's folder. Default: Hugging Face's own.")
    ] = None,
) -> None:
    """Download a job's model and data, for compute nodes without a network."""
    from bookkit.jobs.job_file import load_job
    from bookkit.jobs.render import JOB_FILE
    from nbkit.data.prefetch import prefetch as fetch

    root = find_root()
    folder = job_folder(root, job)
    try:
        fetched = fetch(load_job(folder / JOB_FILE, variant=variant), root, cache=cache)
    except ValueError as error:
        raise UserError(str(error)) from error
    for item in fetched:
        size = item.size_bytes / 1e6
        say(f"{item.kind} {item.name} at {item.commit}: {size:.1f} MB in {item.folder}")
    if not fetched:
        say(f"{folder.name}: model and data are paths here, or none; nothing to fetch")
