"""Where the exercises are found: a check by its id, the rest on the solution page of its chapter.

``exercises/checks/NN/topic_exercise_1.py`` holds the check of ``topic.exercise.1``, and
``solutions/NN_slug.md`` its solution. Both belong to the book and are no part of the package.
"""

import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import nbkit
from bookkit.exercises.exercise import Check, Exercise
from bookkit.exercises.solution import BadSolution, Section, sections_of, solve

CHECKS = "exercises/checks"
KEPT = 1024  # exercises in memory; an edited file makes another one


class UnknownExercise(ValueError):  # noqa: N818 (says what happened)
    """No exercise has the id that was asked for."""


class ChecksMissing(FileNotFoundError):  # noqa: N818 (says what happened)
    """The package was installed without the book, which holds the checks."""


def all_exercises() -> dict[str, Exercise]:
    """All exercises by id, in the order of chapters and, within one, of its solution page.

    Raises:
        ChecksMissing: the package is not that of a copy of the book.
        BadSolution: a check or a solution page does not fit the other.
    """
    found = {name: get_exercise(name) for name in exercise_ids()}
    for path in sorted((_book() / CHECKS).glob("*/*_[0-9]*.py")):
        if path.stem not in {_stem(name) for name in found}:
            raise BadSolution(f"{path} checks an exercise that no solution page states: write it")
    return found


def exercise_ids() -> list[str]:
    """The ids that the solution pages state, in their order."""
    pages = sorted((_book() / "solutions").glob("[0-9][0-9]_*.md"))
    return [section.id for page in pages for section in _sections(page.read_text("utf-8"))]


def sections_of_chapter(chapter: int) -> tuple[Section, ...]:
    """What the solution page of a chapter says of its exercises, in their order; () without one."""
    pages = (_book() / "solutions").glob(f"{chapter:02d}_*.md")
    return tuple(section for page in pages for section in _sections(page.read_text("utf-8")))


def exercise_notebook(chapter: int) -> str:
    """The notebook of a chapter's exercises, by its path from the book's folder."""
    for page in (_book() / "solutions").glob(f"{chapter:02d}_*.md"):
        return f"exercises/{page.stem}.ipynb"
    raise UnknownExercise(f"chapter {chapter} has no exercises")


def get_exercise(exercise_id: str) -> Exercise:
    """The exercise with this id; no other check is loaded.

    Raises:
        ChecksMissing: the package is not that of a copy of the book.
        UnknownExercise: with the nearest ids.
        BadSolution: the check and the solution page do not fit each other.
    """
    for path in _book().joinpath(CHECKS).glob(f"*/{_stem(exercise_id)}.py"):
        chapter = path.parent.name
        (page,) = (_book() / "solutions").glob(f"{chapter}_*.md")
        exercise = _exercise(path, path.read_text("utf-8"), page.read_text("utf-8"))
        if exercise.id == exercise_id:
            return exercise
    known = exercise_ids()
    near = difflib.get_close_matches(exercise_id, known, n=3, cutoff=0.5)
    mend = (
        f"did you mean {' or '.join(repr(name) for name in near)}?"
        if near
        else "`nbkit progress` lists all ids."
    )
    raise UnknownExercise(f"there is no exercise {exercise_id!r}: {mend}")


def _book() -> Path:
    """The folder of the book that this package belongs to."""
    root = Path(nbkit.__file__).parents[1]
    if not (root / CHECKS).is_dir():
        raise ChecksMissing(
            f"the checks of the exercises come with the book, not with the package in {root}: in a "
            "copy of the book's repository run `pip install -e '.[learn]'`, or `make lab`"
        )
    return root


def _stem(exercise_id: str) -> str:
    return exercise_id.replace(".", "_")


@lru_cache(maxsize=KEPT)
def _sections(page: str) -> tuple[Section, ...]:
    return tuple(sections_of(page))


@lru_cache(maxsize=KEPT)
def _exercise(path: Path, source: str, page: str) -> Exercise:
    check = _loaded(path, source).CHECK
    assert isinstance(check, Check)
    for section in _sections(page):
        if section.id == check.id:
            return solve(check, section, int(path.parent.name))
    raise BadSolution(f"{path} checks {check.id}, which its solution page does not state")


def _loaded(path: Path, source: str) -> ModuleType:
    name = ".".join((*CHECKS.split("/"), path.parent.name, path.stem))
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    with _neighbours(path.parent):
        exec(compile(source, str(path), "exec"), module.__dict__)
    return module


@contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Let a check import by its bare name what stands beside it, as a script can."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
