"""What the command and the notebook's cell do: run the learner's file, keep the attempt, report."""

import math
from pathlib import Path

from bookkit.builds.engine import is_unwritten, run
from bookkit.builds.registry import LEARNERS, SOLUTIONS, all_builds, get_build, source_of
from bookkit.builds.report import write
from bookkit.builds.verdict import Say, Verdict
from bookkit.exercises.builds import build_places
from bookkit.exercises.progress import Progress, load, note_attempt, progress_file
from nbkit.errors import UserError
from nbkit.rewards.sandbox import SandboxUnavailableError
from nbkit.runs.root import ROOT


def attempt(
    number: int,
    *,
    solution: bool = False,
    films: bool = True,
    stages: tuple[str, ...] = (),
    allow_unprotected: bool = False,
    say: Say = print,
) -> tuple[Verdict, list[Path]]:
    """Judge the learner's file of a build, or the solution, and write what is to be looked at.

    Args:
        number: of the chapter.
        solution: judge the book's own; no attempt is kept.
        films: record a film of the agent.
        stages: titles of those to judge; empty: all. A part is no attempt, and nothing passes.
        allow_unprotected: run without a sandbox where this machine has none.
        say: takes a line of progress.

    Returns:
        The verdict, and the files that were written.

    Raises:
        UserError: no such build, stage or file, or no sandbox.

    """
    build = get_build(number)
    titles = [stage.title for stage in build.stages]
    if unknown := [title for title in stages if title not in titles]:
        raise UserError(f"build {number} has no stage {unknown[0]!r}; it has {', '.join(titles)}")
    source = source_of(build, SOLUTIONS if solution else LEARNERS)
    try:
        verdict = run(
            build, source, films=films, only=stages, allow_unprotected=allow_unprotected, say=say
        )
    except SandboxUnavailableError as error:
        raise UserError(
            f"{error}. To run your own file without a sandbox, say --unprotected; in a notebook, "
            "allow_unprotected=True"
        ) from error
    if is_unwritten(verdict):
        return verdict, []
    if not solution and not stages:
        note_attempt(build.progress_id, verdict.passed, scores_of(verdict))
    return verdict, write(verdict, ROOT / "runs" / "builds" / build.name)


def scores_of(verdict: Verdict) -> dict[str, float]:
    """The scores of the stages that have one, by their titles."""
    return {
        finding.title: round(finding.score, 4)
        for finding in verdict.findings
        if finding.score is not None and math.isfinite(finding.score)
    }


def standing() -> list[str]:
    """A line for each build: whether it has passed, after how many tries, its title and file."""
    path = progress_file()
    kept = Progress() if path is None else load(path)
    lines = []
    for build in all_builds().values():
        record = kept.exercises.get(build.progress_id)
        tries = 0 if record is None else record.attempts
        state = {"done": "passed", "failed": "not yet"}.get(
            kept.state(build.progress_id), "not tried"
        )
        count = f", {tries} {'try' if tries == 1 else 'tries'}" if tries else ""
        file = f"{LEARNERS}/{build.name}.py"
        lines.append(f"{build.number:>3}  {state + count:20}  {file:38}  {build.title}")
    whole = [place for place in build_places(kept) if place.chapter is None]
    lines += [f" {'–':>2}  {place.said():20}  {place.file:38}  {place.title}" for place in whole]
    return lines
