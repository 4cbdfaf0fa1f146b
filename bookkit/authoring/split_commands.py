"""The command `nbkit exercises split`."""

from typing import Annotated

import typer

app = typer.Typer()


@app.callback()
def _group() -> None:
    """Keep the command's name although it is the only one here."""


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
    from nbkit.runs.checkout import find_root

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
