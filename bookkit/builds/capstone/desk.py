"""What the command does: practise on one pupil, verify on several, check an entry of another."""

import ast
from collections.abc import Sequence
from pathlib import Path

from bookkit.authoring.proof import proof_context
from bookkit.builds.capstone import task
from bookkit.builds.capstone.board import (
    FOLDER,
    Entry,
    board,
    digest_of,
    put,
    read_entry,
    refuted,
)
from bookkit.builds.capstone.judge import FILE, Outcome, several
from bookkit.builds.registry import LEARNERS
from bookkit.builds.session import Stopped
from bookkit.builds.verdict import Say
from bookkit.exercises.progress import note_attempt
from nbkit.errors import UserError
from nbkit.rewards.sandbox import SandboxUnavailableError
from nbkit.runs.root import ROOT

PROGRESS_ID = "build.capstone"
WRITTEN = "runs/builds/capstone/entry.json"
FIRST = "reinforce"  # the entry that a pass stands above
QUESTIONS = task.HELD_OUT * task.EACH


def source_at(path: Path) -> str:
    """The text of a capstone file.

    Raises:
        UserError: it is missing, or no text.

    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def own_file(name: str | None = None) -> Path:
    """The learner's file, or the book's own of a name.

    Raises:
        UserError: the book has none of that name.

    """
    if name is None:
        return ROOT / LEARNERS / FILE
    path = ROOT / FOLDER / f"{name}.py"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in (ROOT / FOLDER).glob("*.py")))
        raise UserError(f"the book has no capstone file {name!r}; it has {known}")
    return path


def is_unwritten(stopped: str) -> bool:
    """Whether a run ended because the file is as it was handed out."""
    return stopped.endswith("\nNotImplementedError")


def run(
    source: str, *, count: int, allow_unprotected: bool, say: Say, seed: int | None = None
) -> list[Outcome]:
    """Run a file on fresh pupils.

    Raises:
        UserError: no sandbox, or the run did not end well.

    """
    try:
        return several(source, count=count, seed=seed, allow_unprotected=allow_unprotected, say=say)
    except SandboxUnavailableError as error:
        raise UserError(
            f"{error}. To run your own file without a sandbox, say --unprotected"
        ) from error
    except Stopped as error:
        if is_unwritten(str(error)):
            raise UserError(
                f"{LEARNERS}/{FILE} is not written yet; book/builds/capstone.md says what it does"
            ) from None
        raise UserError(str(error)) from None


def entry_of(name: str, source: str, outcomes: Sequence[Outcome]) -> Entry:
    """The line of the board for what several pupils have reached.

    Raises:
        UserError: the file says no method, or the name is none.

    """
    context = proof_context(ROOT)
    try:
        return Entry(
            name=name,
            method=method_of(source),
            digest=digest_of(source),
            source=source,
            rules=task.rules_digest(),
            before=[outcome.before for outcome in outcomes],
            after=[outcome.after for outcome in outcomes],
            tokens=[outcome.tokens for outcome in outcomes],
            processor_seconds=[round(outcome.processor_seconds, 1) for outcome in outcomes],
            **context,
        )
    except ValueError as error:
        raise UserError(
            f"no entry can be made: a name is of small letters, digits, - and _, and a method of "
            f"at most 200 characters ({error})"
        ) from None


def method_of(source: str) -> str:
    """The first line of a file's docstring.

    Raises:
        UserError: there is none.

    """
    try:
        text = (ast.get_docstring(ast.parse(source)) or "").strip()
    except (SyntaxError, ValueError) as error:
        raise UserError(f"the file is no Python yet: {error}") from None
    if not text:
        raise UserError(
            "the board shows the first line of your file's docstring as your method: write one"
        )
    return " ".join(text.splitlines()[0].split())


def verify(
    name: str, source: str, *, allow_unprotected: bool = False, say: Say = print, keep: bool = False
) -> tuple[Entry, list[Outcome]]:
    """Run a file on `task.SEEDS` fresh pupils and make its entry.

    Args:
        name: of the entry.
        source: the file's text.
        allow_unprotected: run without a sandbox where this machine has none.
        say: takes a line of progress.
        keep: put it on the board; for the book's own files.

    Raises:
        UserError: the run did not end well, or no entry can be made.

    """
    method_of(source)
    outcomes = run(source, count=task.SEEDS, allow_unprotected=allow_unprotected, say=say)
    entry = entry_of(name, source, outcomes)
    if keep:
        put(entry, task.rules())
    return entry, outcomes


def store(entry: Entry) -> tuple[Path, bool]:
    """Write a learner's entry, note the attempt; the path, and whether it passed."""
    path = ROOT / WRITTEN
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(entry.model_dump_json(indent=1) + "\n", encoding="utf-8")
    passed = entry.accuracy > first().accuracy + first().half_width
    note_attempt(
        PROGRESS_ID, passed, scores={"held-out accuracy, %": round(100 * entry.accuracy, 1)}
    )
    return path, passed


def first() -> Entry:
    """The entry that a pass stands above.

    Raises:
        UserError: the board has none.

    """
    for entry in board():
        if entry.name == FIRST:
            return entry
    raise UserError(f"the board has no entry {FIRST!r}: `git checkout` brings it back")


def check(path: Path, *, allow_unprotected: bool = False, say: Say = print) -> list[str]:
    """Run the file of an entry again, on pupils of its own, and say what of the entry fails.

    Raises:
        UserError: it is no entry, is of other rules, or its file does not run.

    """
    entry = read_entry(path)
    if entry.rules != task.rules_digest():
        raise UserError(
            f"{path} was measured under other rules ({entry.rules}; here {task.rules_digest()}): "
            "verify its file anew"
        )
    if entry.method != method_of(entry.source):
        raise UserError(f"{path}: the method is not the first line of the file in it")
    outcomes = run(entry.source, count=task.SEEDS, allow_unprotected=allow_unprotected, say=say)
    found = entry_of(entry.name, entry.source, outcomes)
    say(f"claimed {entry.said()}, found {found.said()}")
    return refuted(entry, found, QUESTIONS)
