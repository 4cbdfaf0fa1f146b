"""What a learner has done, kept in one small file."""

import os
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

State = Literal["done", "failed", "not tried"]


class Record(BaseModel):
    """One exercise: how often it was tried, and when it first and last passed or failed.

    A build also keeps the scores of the last try, by the title of their stage.
    """

    attempts: int = Field(ge=1)
    first_passed: datetime | None = None
    last_tried: datetime
    last_passed: bool
    scores: dict[str, float] = Field(default_factory=dict)


class Guess(BaseModel):
    """One prediction: the points of the first guess, and its score once the truth was shown."""

    points: list[tuple[float, float]]
    made: datetime
    score: int | None = Field(default=None, ge=0, le=100)


class Progress(BaseModel):
    """The content of the progress file."""

    version: Literal[1] = 1
    exercises: dict[str, Record] = Field(default_factory=dict)
    predictions: dict[str, Guess] = Field(default_factory=dict)

    def state(self, exercise_id: str) -> State:
        """done (passed at least once), failed (tried, never passed) or not tried."""
        record = self.exercises.get(exercise_id)
        if record is None:
            return "not tried"
        return "failed" if record.first_passed is None else "done"


def project_root(start: Path | None = None) -> Path | None:
    """The folder of the book that holds ``start`` (default: the working directory)."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "nbkit").is_dir():
            return folder
    return None


def progress_file() -> Path | None:
    """Where progress is kept: ``NBKIT_PROGRESS``, else ``.nbkit/progress.json`` of the book."""
    named = os.environ.get("NBKIT_PROGRESS")
    if named:
        return Path(named)
    root = project_root()
    return root / ".nbkit" / "progress.json" if root else None


def load(path: Path) -> Progress:
    """Read the file; no file is no progress.

    A file that cannot be understood is moved aside, never overwritten, and one sentence says so.
    """
    try:
        return Progress.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Progress()
    except (ValidationError, UnicodeDecodeError):
        backup = _free_name(path)
        path.replace(backup)
        print(
            f"{path.name} could not be understood: it is kept as {backup.name} in {backup.parent}, "
            "and a new one begins."
        )
        return Progress()


def _free_name(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.stem}.unreadable-{number}.json")).exists():
        number += 1
    return backup


def save(path: Path, progress: Progress) -> None:
    """Write the file whole: a reader sees the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".progress-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(progress.model_dump_json(indent=1) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def note_attempt(
    exercise_id: str, passed: bool, scores: Mapping[str, float] | None = None
) -> Progress | None:
    """Store the outcome of an attempt; a passed exercise stays done.

    Args:
        exercise_id: of the exercise, or `build.NN`.
        passed: whether this attempt did.
        scores: of a build, by stage.

    Attempts in the solutions' notebooks and outside a copy of the book are not stored.

    Returns:
        What is kept now; None where nothing is.
    """

    def note(progress: Progress) -> None:
        old = progress.exercises.get(exercise_id)
        first = old.first_passed if old else None
        progress.exercises[exercise_id] = Record(
            attempts=old.attempts + 1 if old else 1,
            first_passed=first or (now() if passed else None),
            last_tried=now(),
            last_passed=passed,
            scores=dict(scores or {}),
        )

    return None if _in_solutions() else update(note)


def update(change: Callable[[Progress], None]) -> Progress | None:
    """Read the file, change what it says, and write it, while no other notebook does.

    A folder that cannot be written to is reported in one sentence and spoils nothing.

    Returns:
        What is kept now; None where nothing is.
    """
    path = progress_file()
    if path is None:
        return None
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=5):
            progress = load(path)
            change(progress)
            save(path, progress)
    except (OSError, Timeout) as error:
        print(f"Progress was not stored in {path}: {error}")
        return None
    return progress


def now() -> datetime:
    """The time to the second, as it is stored."""
    return datetime.now(UTC).replace(microsecond=0)


def _in_solutions() -> bool:
    notebook = os.environ.get("JPY_SESSION_NAME", "")
    return "solutions" in Path(notebook).parts or Path.cwd().name == "solutions"
