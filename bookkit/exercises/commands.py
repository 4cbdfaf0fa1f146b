"""The command line of the exercises: progress, and the proof of a check."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from bookkit.exercises.builds import BuildPlace
    from bookkit.exercises.exercise import Exercise

SIGNS = {"done": "✔ done", "failed": "✘ not yet", "not tried": "· not tried"}
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
    """Show which exercises and builds are done, failed or not tried."""
    from bookkit.exercises.builds import build_places
    from bookkit.exercises.progress import load, progress_file

    exercises = [e for e in _registry().values() if chapter in (None, e.chapter)]
    if not exercises:
        raise _fail(f"chapter {chapter} has no exercises; leave --chapter out to see all.")
    path = progress_file()
    if path is None:
        raise _fail("no copy of the book here: run `nbkit progress` inside the book's folder.")
    kept = load(path)
    builds = build_places(kept)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("exercise", min_width=max(len(exercise.id) for exercise in exercises))
    table.add_column("state", min_width=19)
    table.add_column("level", min_width=5)
    table.add_column("min", justify="right", min_width=3)
    table.add_column("title", overflow="fold")
    for number, group in groupby(exercises, key=lambda exercise: exercise.chapter):
        members = list(group)
        done = sum(kept.state(exercise.id) == "done" for exercise in members)
        table.add_section()
        table.add_row(f"chapter {number}", f"{done} of {len(members)} done", style="bold")
        for exercise in members:
            tries = kept.exercises[exercise.id].attempts if exercise.id in kept.exercises else 0
            state = SIGNS[kept.state(exercise.id)]
            state += f", {tries} {'try' if tries == 1 else 'tries'}" if tries else ""
            level = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
            table.add_row(exercise.id, state, level, str(exercise.minutes), exercise.title)
        for build in (b for b in builds if b.chapter == number):
            table.add_row(*_build_row(build))
    whole = [build for build in builds if build.chapter is None] if chapter is None else []
    if whole:
        table.add_section()
        table.add_row("whole book", style="bold")
        for build in whole:
            table.add_row(*_build_row(build))
    console = Console(highlight=False)
    console.print(table)
    for name, guess in kept.predictions.items():
        score = "not revealed" if guess.score is None else f"{guess.score} of 100"
        console.print(f"prediction {name}: {score}")
    left = [exercise for exercise in exercises if kept.state(exercise.id) != "done"]
    console.print(
        f"{len(exercises) - len(left)} of {len(exercises)} done; about "
        f"{sum(exercise.minutes for exercise in left)} minutes of work left."
    )


def _build_row(build: "BuildPlace") -> tuple[str, str, str, str, str]:
    """A build as a row of the table: its scores and day stand behind the title."""
    tries = f", {build.tries} {'try' if build.tries == 1 else 'tries'}" if build.tries else ""
    said = f"{build.title} ({build.said()})" if build.tries else build.title
    return build.id, SIGNS[build.state] + tries, "build", "", said


@app.command()
def prove(
    exercise_id: Annotated[str, typer.Argument(help="The exercise, for example reinforce.mask.1.")],
    seeds: Annotated[int, typer.Option(min=1, help="On how many seeds.")] = 20,
) -> None:
    """Prove a check: the reference passes, the stub and every mutant fail as they must."""
    registry = _registry()
    from bookkit.exercises.proof import prove_exercise
    from bookkit.exercises.registry import UnknownExercise, get_exercise

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


def _registry() -> "dict[str, Exercise]":
    try:
        from bookkit.exercises.registry import ChecksMissing, all_exercises
    except ModuleNotFoundError as error:
        raise _fail(
            f"the exercises need {error.name}, which is not installed: run `make test` or "
            "`make lab` once, or `pip install -e .[learn]`."
        ) from None
    try:
        return all_exercises()
    except ChecksMissing as error:
        raise _fail(str(error)) from None
