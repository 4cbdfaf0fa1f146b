"""The command `nbkit job sweep`."""

from typing import Annotated

import typer

from bookkit.checkout import find_root
from bookkit.jobs.console import STOPPED, JobName, Variant, job_folder, known_launcher, say, shorten
from nbkit.errors import UserError


def sweep(
    job: JobName,
    variant: Variant = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value,value,…; several are combined.")
    ] = None,
    label: Annotated[str, typer.Option(help="Names the sweep's folder, runs/JOB/LABEL.")] = "",
    at_most: Annotated[int, typer.Option(min=0, help="So many at one time; 0: no limit.")] = 0,
    local: Annotated[
        str, typer.Option(help="Run here, one after another: torchrun or deepspeed.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Otherwise only show it.")] = False,
) -> None:
    """Check the runs of a sweep and show the command that queues them; with --yes, queue them."""
    from bookkit.jobs.render import budget_comment
    from bookkit.jobs.submit import run_here
    from bookkit.jobs.submit import submit as start
    from bookkit.jobs.sweep import make_sweep, prepare_members

    root = find_root()
    folder = job_folder(root, job)
    base = (root / "runs" / folder.name / (label or variant or "sweep")).resolve()
    launcher = known_launcher(local) if local else ""
    try:
        made = make_sweep(
            folder,
            root,
            settings or (),
            base=base,
            variant=variant,
            at_most=at_most,
            launcher=launcher,
        )
        one = f"{made.job.limits.requeues} requeues{budget_comment(made.job)}"
        done = f" ({made.finished} others have finished)" if made.finished else ""
        say(f"# {folder.name}: {len(made.members)} runs below {base}{done}; each at most {one}")
        for member in made.members:
            say(str(member) if local else f"# {member.run.name}")
        if not local:
            say(str(made.array))
        if not yes:
            say("# Nothing was started: this was a dry run. Add --yes to start it.")
            return
        prepare_members(made)
        if not local:
            say(start(made.array, root))
        elif not all(run_here(member, root) for member in made.members):
            say("# Stopped; the same command goes on from there.")
            raise typer.Exit(STOPPED)
    except ValueError as error:
        raise UserError(shorten(str(error), root)) from error
    say("# See how they go: nbkit job status")
