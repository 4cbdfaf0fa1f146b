"""A class's folder: who handed in which notebooks.

Either a folder for each learner, with the notebooks (and perhaps `progress.json`) anywhere below
it, and builds as ``builds/12_ppo.py``; or notebooks side by side whose names begin with the
learner's: ``ada_12_ppo.ipynb``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from bookkit.exercises.progress import Progress
from nbkit.errors import UserError

LARGEST_BYTES = 20 * 2**20
PROGRESS, BUILDS, CAPSTONE = "progress.json", "builds", "capstone"


@dataclass(frozen=True)
class Submission:
    """What one learner handed in.

    Attributes:
        learner: the name, of the folder or of the files.
        notebooks: by the number of their chapter.
        problems: of files that are not taken, one sentence each.
        attempts: how often each exercise was checked, as the learner's own file says.
        builds: programs by the number of their chapter.
    """

    learner: str
    notebooks: dict[int, Path] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    builds: dict[int, Path] = field(default_factory=dict)


def find_submissions(
    folder: Path, stems: dict[str, int], builds: dict[str, int] | None = None
) -> list[Submission]:
    """All submissions of a folder, by learner.

    Args:
        folder: of the class.
        stems: the names of the exercise notebooks, without suffix, and their chapters.
        builds: the names of the builds, likewise; default: none is looked for.

    Raises:
        UserError: there is no such folder, or nothing in it was handed in.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the one that holds the submissions")
    found = {sub.name: _of_folder(sub, stems, builds or {}) for sub in _folders(folder)}
    ending = re.compile(
        rf"^(?:(?P<learner>.+?)[-_. ]+)?(?P<stem>{'|'.join(map(re.escape, stems))})$"
    )
    for path in sorted(folder.glob("*.ipynb")):
        match = ending.match(path.stem)
        learner = (match["learner"] if match else None) or folder.name
        submission = found.setdefault(learner, Submission(learner))
        if match is None:
            submission.problems.append(f"{path.name} is named like no exercise of the book")
        else:
            _take(submission, submission.notebooks, path, stems[match["stem"]])
    if not found:
        raise UserError(f"{folder} holds no submissions: a folder or a notebook for each learner")
    return [found[learner] for learner in sorted(found)]


def _folders(folder: Path) -> Iterator[Path]:
    for sub in sorted(folder.iterdir()):
        if sub.is_dir() and not sub.is_symlink() and not sub.name.startswith("."):
            yield sub


def _of_folder(folder: Path, stems: dict[str, int], builds: dict[str, int]) -> Submission:
    submission = Submission(folder.name)
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        if path.stem in stems:
            _take(submission, submission.notebooks, path, stems[path.stem])
    for path in sorted(folder.rglob(f"{BUILDS}/*.py")):
        if path.stem in builds:
            _take(submission, submission.builds, path, builds[path.stem])
        elif path.stem == CAPSTONE:
            submission.problems.append(f"{path.name} is verified by `nbkit build {CAPSTONE}` alone")
        else:
            submission.problems.append(f"{BUILDS}/{path.name} is named like no build of the book")
    for path in sorted(folder.rglob(PROGRESS))[:1]:
        if not path.is_symlink() and path.stat().st_size < LARGEST_BYTES:
            submission.attempts.update(_attempts(path))
    if not submission.notebooks and not submission.builds and not submission.problems:
        submission.problems.append("no notebook is named like an exercise of the book")
    return submission


def _take(submission: Submission, taken: dict[int, Path], path: Path, chapter: int) -> None:
    if path.is_symlink() or not path.is_file():
        submission.problems.append(f"{path.name} is a link or no file, and is not read")
    elif path.stat().st_size > LARGEST_BYTES:
        submission.problems.append(f"{path.name} has more than {LARGEST_BYTES // 2**20} MiB")
    elif chapter in taken:
        submission.problems.append(f"{path.name} was handed in twice; the first is graded")
    else:
        taken[chapter] = path


def _attempts(path: Path) -> dict[str, int]:
    try:
        kept = Progress.model_validate_json(path.read_bytes())
    except (ValidationError, ValueError):
        return {}
    return {name: record.attempts for name, record in kept.exercises.items()}
