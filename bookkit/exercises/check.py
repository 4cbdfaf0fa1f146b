"""``nbkit.check``: put a learner's function to the test and say what is wrong with it."""

import inspect
import os
import random
import time
from collections.abc import Callable
from typing import Any

from bookkit.exercises.bench import Bench, Finding, first_failure
from bookkit.exercises.diagnose import learners_line, name_mistakes
from bookkit.exercises.exercise import Exercise, call_with_inputs
from bookkit.exercises.progress import note_attempt
from bookkit.exercises.registry import get_exercise
from bookkit.exercises.report import failed, passed
from bookkit.exercises.standing import standing_line
from bookkit.exercises.verdict import Block, CheckResult, as_html, as_text, show, with_line


class CheckFailed(AssertionError):  # noqa: N818 (a name that the outside uses)
    """A check failed under ``NBKIT_STRICT=1``; ``result`` holds the verdict."""

    def __init__(self, result: CheckResult):
        super().__init__(result.message)
        self.result = result


def is_strict() -> bool:
    """Whether a failed check raises (``NBKIT_STRICT`` set, and not to 0)."""
    return os.environ.get("NBKIT_STRICT", "") not in ("", "0")


def check(
    exercise_id: str, function: Callable[..., Any], *, seed: int | None = None
) -> CheckResult:
    """Check a solution: print the verdict and return it.

    Each call draws new cases; the seed in a verdict repeats them.

    Args:
        exercise_id: as in the exercise's heading, ``"reinforce.mask.1"``.
        function: the function itself, not a call of it.
        seed: repeats the cases of an earlier check.

    Raises:
        UnknownExercise: (a ValueError) no exercise has this id; the nearest ids are named.
        TypeError: the arguments are not an id and a function.
        CheckFailed: under ``NBKIT_STRICT=1``, if the function is wrong or not written yet.
    """
    started = time.perf_counter()
    exercise = _valid(exercise_id, function)
    seed = random.SystemRandom().randrange(1, 1_000_000) if seed is None else seed
    result = verdict_on(Bench(exercise, seed), function, started=started)
    if not is_strict() and result.message[:1] != "○":
        kept = note_attempt(exercise.id, result.passed)
        if result.passed and kept is not None:
            result = with_line(result, standing_line(exercise.id, exercise.chapter, kept))
    show(result)
    if is_strict() and not result.passed:
        raise CheckFailed(result)
    return result


def _valid(exercise_id: object, function: object) -> Exercise:
    if not isinstance(exercise_id, str):
        raise TypeError('the exercise id comes first: nbkit.check("topic.name.1", function)')
    exercise = get_exercise(exercise_id)
    if not callable(function):
        raise TypeError(
            f"nbkit.check({exercise_id!r}, …) needs the function itself, not its result (here: "
            f"{type(function).__name__}): write its name without parentheses"
        )
    return exercise


def verdict_on(
    bench: Bench, function: Callable[..., Any], *, started: float | None = None
) -> CheckResult:
    """Judge a function on a bench without printing or recording anything.

    Args:
        bench: the questions.
        function: the learner's.
        started: of ``time.perf_counter``, when the check began; default now.
    """
    started = time.perf_counter() if started is None else started
    misfit = signature_misfit(question_names(bench), function)
    findings = [] if misfit else bench.judge(function)
    return verdict_of(bench, findings, misfit, function, started=started)


def verdict_of(
    bench: Bench,
    findings: list[Finding],
    misfit: str | None,
    function: Callable[..., Any],
    *,
    started: float,
) -> CheckResult:
    """Put findings into words, wherever the function ran.

    Args:
        bench: the questions.
        findings: what the function did with each.
        misfit: why the function cannot be called as the exercise says, or None.
        function: gives its name and the lines of its own file.
        started: of ``time.perf_counter``, when the check began.
    """
    exercise = bench.exercise
    failure = first_failure(findings)
    mistakes: list[str] = []
    if misfit:
        state, headline, blocks = "failed", f"{exercise.id}: not right yet", [Block(misfit)]
        mistakes = [misfit]
    elif failure is None:
        state, (headline, blocks) = "passed", passed(bench)
    elif isinstance(failure.seen.error, NotImplementedError):
        state, headline = "open", f"{exercise.id}: not implemented yet"
        where = learners_line(function, failure.seen.error_lines)
        blocks = [Block(f"Goal: {exercise.goal}")] + ([Block(f"Begin at {where}")] if where else [])
    else:
        mistakes = name_mistakes(bench, findings)
        state, headline = "failed", f"{exercise.id}: not right yet"
        blocks = failed(bench, function, findings, failure, mistakes)
    seconds = time.perf_counter() - started
    if state == "passed":
        headline += f", {seconds:.1f} s"
    return CheckResult(
        passed=state == "passed",
        message=as_text(state, headline, blocks),
        exercise_id=exercise.id,
        seconds=seconds,
        seed=bench.seed,
        mistakes=tuple(mistakes),
        html=as_html(state, headline, blocks),
    )


def question_names(bench: Bench) -> list[str]:
    """The names of the inputs that are handed over by position; none where the call is another."""
    if bench.exercise.call is not call_with_inputs:
        return []
    return [n for n in bench.runs[0].case.inputs if n not in bench.exercise.hidden]


def signature_misfit(names: list[str], function: Callable[..., Any]) -> str | None:
    """Why a function cannot take inputs with these names by position, or None."""
    if not names:
        return None
    try:
        signature = inspect.signature(function)
        signature.bind(*names)
    except TypeError as error:
        return f"your function takes {signature}; it is called with ({', '.join(names)}): {error}"
    except ValueError:  # a built-in without a signature
        return None
    return None
