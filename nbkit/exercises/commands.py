"""The command line of the exercises: progress, and the proof of a check."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="Exercises: what is done, and proofs of the checks.")


@app.callback()
def _group() -> None:
    """Keep the commands' names also while there is only one."""


def _fail(sentence: str) -> typer.Exit:
    Console(stderr=True, highlight=False).print(sentence, soft_wrap=True, markup=False)
    return typer.Exit(1)


@app.command()
def progress(
    chapter: Annotated[int | None, typer.Option(help="Only this chapter.")] = None,
) -> None:
    """Show which exercises are done, failed or not tried."""
    from nbkit.exercises.progress import load, progress_file

    exercises = [e for e in _registry().values() if chapter in (None, e.chapter)]
    if not exercises:
        raise _fail(f"chapter {chapter} has no exercises; leave --chapter out to see all.")
    path = progress_file()
    if path is None:
        raise _fail("no copy of the book here: run `nbkit progress` inside the book's folder.")
    kept = load(path)
    table = Table(title="Exercises", title_justify="left")
    for heading in ("chapter", "exercise", "title", "difficulty", "minutes", "state", "attempts"):
        table.add_column(heading, no_wrap=heading == "exercise")
    signs = {"done": "✔ done", "failed": "✘ failed", "not tried": "· not tried"}
    done = 0
    for exercise in exercises:
        state = kept.state(exercise.id)
        done += state == "done"
        record = kept.exercises.get(exercise.id)
        table.add_row(
            str(exercise.chapter),
            exercise.id,
            exercise.title,
            f"{exercise.difficulty} of 5",
            str(exercise.minutes),
            signs[state],
            str(record.attempts) if record else "",
        )
    console = Console(highlight=False)
    console.print(table)
    left = sum(e.minutes for e in exercises if kept.state(e.id) != "done")
    console.print(f"{done} of {len(exercises)} done; about {left} minutes of work left.")


@app.command()
def prove(
    exercise_id: Annotated[str, typer.Argument(help="The exercise, for example reinforce.mask.1.")],
    seeds: Annotated[int, typer.Option(min=1, help="On how many seeds.")] = 20,
) -> None:
    """Prove a check: the reference passes, the stub and every mutant fail as they must."""
    registry = _registry()
    from nbkit.exercises.proof import prove_exercise
    from nbkit.exercises.registry import UnknownExercise, get_exercise

    try:
        exercise = registry.get(exercise_id) or get_exercise(exercise_id)
    except UnknownExercise as error:
        raise _fail(str(error)) from None
    faults = prove_exercise(exercise, range(1, seeds + 1))
    for fault in faults:
        print(fault)
    if faults:
        raise typer.Exit(1)
    print(
        f"{exercise.id}: reference, stub and {len(exercise.mutants)} mutants behave as they must "
        f"on {seeds} seeds."
    )


def _registry():  # type: ignore[no-untyped-def]
    try:
        from nbkit.exercises.registry import all_exercises
    except ModuleNotFoundError as error:
        raise _fail(
            f"the exercises need {error.name}, which is not installed: run `make test` or "
            "`make lab` once, or `pip install -e .[learn]`."
        ) from None
    return all_exercises()
