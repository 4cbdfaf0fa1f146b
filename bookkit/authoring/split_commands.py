"""The command `nbkit exercises split`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.callback()
def _group() -> None:
    """Name the group, which other modules add to."""


@app.command()
def split(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; name what is not current, and fail.")
    ] = False,
    chapter: Annotated[int | None, typer.Option(help="Only the exercises of one chapter.")] = None,
) -> None:
    """Cut the exercises out of their solutions."""
    from bookkit.authoring import split as tool
    from bookkit.authoring.commands import report, say
    from bookkit.authoring.page import find_pages
    from bookkit.authoring.repository import chapter_number, require_chapter
    from bookkit.checkout import find_root

    root = find_root()
    require_chapter(root, chapter)
    exercises = [
        exercise
        for exercise in tool.find_exercises(root, find_pages(root))
        if chapter is None or chapter_number(exercise.path) == chapter
    ]
    if check:
        findings = tool.check(root, exercises, orphans=chapter is None)
        report(findings, f"{len(exercises)} exercise notebooks are what their solutions give")
        return
    for exercise in exercises:
        say(tool.write(exercise))


@app.command()
def exam(
    folder: Annotated[Path, typer.Argument(help="Where the notebooks go.")],
    chapter: Annotated[int | None, typer.Option(help="Only the exercises of one chapter.")] = None,
) -> None:
    """Write the exercises in exam form: without hints, and without checks that name mistakes."""
    from bookkit.authoring.commands import say
    from bookkit.authoring.exam import write_exam
    from bookkit.authoring.page import find_pages
    from bookkit.authoring.repository import chapter_number, require_chapter
    from bookkit.authoring.split import find_exercises
    from bookkit.checkout import find_root

    root = find_root()
    require_chapter(root, chapter)
    folder.mkdir(parents=True, exist_ok=True)
    for exercise in find_exercises(root, find_pages(root)):
        if chapter is None or chapter_number(exercise.path) == chapter:
            say(f"{write_exam(exercise, folder)}: written without hints and checks")


@app.command()
def reset(
    exercise_id: Annotated[str, typer.Argument(help="The exercise, for example ppo.gae.1.")],
) -> None:
    """Put one exercise back to its stub; what was written there is kept in a file."""
    from bookkit.authoring.commands import say
    from bookkit.authoring.page import find_pages
    from bookkit.authoring.repository import chapter_number
    from bookkit.authoring.reset import reset as put_back
    from bookkit.authoring.split import find_exercises
    from bookkit.checkout import find_root
    from bookkit.exercises.registry import UnknownExercise, get_exercise, sections_of_chapter
    from nbkit.errors import UserError

    root = find_root()
    try:
        chapter = get_exercise(exercise_id).chapter
    except UnknownExercise as error:
        raise UserError(str(error)) from error
    (section,) = (s for s in sections_of_chapter(chapter) if s.id == exercise_id)
    notebooks = find_exercises(root, find_pages(root))
    (notebook,) = (e for e in notebooks if chapter_number(e.path) == chapter)
    say(put_back(notebook, exercise_id, section.function))


@app.command()
def solution(
    exercise_id: Annotated[str, typer.Argument(help="The exercise, for example ppo.gae.1.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Show it without a try.")] = False,
) -> None:
    """Show the solution of an exercise that was tried; of one that was not, by --anyway."""
    from bookkit.exercises.registry import UnknownExercise
    from bookkit.exercises.shown_solution import solution as show
    from nbkit.errors import UserError

    try:
        show(exercise_id, anyway=anyway)
    except UnknownExercise as error:
        raise UserError(str(error)) from error
