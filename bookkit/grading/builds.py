"""Grades the builds that were handed in: each is judged as `nbkit build` judges it, in a sandbox.

All learners meet the same worlds, drawn from the seed of the grading, which none of them has seen.
"""

from pathlib import Path

from bookkit.builds.engine import is_unwritten, run
from bookkit.builds.registry import get_build
from bookkit.builds.report import shown
from bookkit.builds.verdict import Verdict
from bookkit.grading.judge import Mark, State
from nbkit.errors import UserError
from nbkit.rewards.sandbox import SandboxUnavailableError

MARKS = 10  # of a build: as many as two of the hardest exercises
LARGEST_BYTES = 2**20
LONGEST = 400  # characters of a sentence


def grade_build(path: Path, number: int, seed: int) -> Mark:
    """The mark of one file.

    Args:
        path: what was handed in.
        number: of the build's chapter.
        seed: of the judge's draws.

    Raises:
        UserError: this machine has no sandbox.

    """
    build = get_build(number)
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return _mark(build.progress_id, "missing", "the file is longer than 1 MiB")
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _mark(build.progress_id, "missing", f"the file cannot be read: {error}")
    try:
        verdict = run(build, source, seed=seed, films=False)
    except SandboxUnavailableError as error:
        raise UserError(f"grading needs a sandbox: {error}") from error
    return _mark(build.progress_id, _state(verdict), _sentence(verdict))


def _state(verdict: Verdict) -> State:
    if verdict.passed:
        return "passed"
    if is_unwritten(verdict):
        return "not written"
    return "ended" if verdict.stopped else "failed"


def _sentence(verdict: Verdict) -> str:
    """Why it did not pass; of an error its own line, and where in the file it was raised."""
    if verdict.passed:
        return ""
    if is_unwritten(verdict):
        return "the file is as it was handed out"
    if not verdict.stopped:
        return verdict.sentences[0]
    stage = verdict.build.stages[len(verdict.findings)].title
    return f"{stage}: {verdict.stopped}"


def _mark(name: str, state: State, sentence: str) -> Mark:
    told = " ".join(shown(" ".join(sentence.split())).split())
    told = told if len(told) <= LONGEST else f"{told[: LONGEST // 2]} … {told[-LONGEST // 2 :]}"
    return Mark(name, state, told, MARKS if state == "passed" else 0, MARKS)
