"""The solution of an exercise, after a try or on request."""

from bookkit.exercises.progress import Progress, load, progress_file
from bookkit.exercises.registry import UnknownExercise, get_exercise, sections_of_chapter
from bookkit.exercises.verdict import in_notebook


def solution_of(exercise_id: str) -> str:
    """The code of the solution page's cell.

    Raises:
        UnknownExercise: no exercise has this id; the nearest ids are named.
    """
    chapter = get_exercise(exercise_id).chapter
    for section in sections_of_chapter(chapter):
        if section.id == exercise_id:
            return section.source.strip()
    raise UnknownExercise(f"no solution page of chapter {chapter} states {exercise_id!r}")


def solution(exercise_id: str, *, anyway: bool = False) -> None:
    """Show the solution of an exercise that was tried; of one that was not, on request.

    Args:
        exercise_id: as in the exercise's heading.
        anyway: show it without a try.

    Raises:
        UnknownExercise: no exercise has this id; the nearest ids are named.
    """
    code = solution_of(exercise_id)
    path = progress_file()
    kept = load(path) if path is not None else Progress()
    if kept.state(exercise_id) == "not tried" and not anyway:
        print(
            f"{exercise_id} has not been tried: run its check once, or ask for the solution all "
            f'the same by nbkit.solution("{exercise_id}", anyway=True).'
        )
        return
    if not in_notebook():
        print(code)
        return
    from IPython.display import Code, display

    display(Code(code, language="python"))
