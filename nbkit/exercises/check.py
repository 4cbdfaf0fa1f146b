"""``nbkit.check``: put a learner's function to the test and say what is wrong with it."""

import inspect
import os
import random
import time
from collections.abc import Callable
from typing import Any

from torch import Tensor

from nbkit.exercises.bench import Bench, Finding, first_failure
from nbkit.exercises.diagnose import error_hint, learners_line, name_mistakes
from nbkit.exercises.limits import TimeLimitReached
from nbkit.exercises.progress import note_attempt
from nbkit.exercises.registry import Exercise, call_with_inputs, get_exercise
from nbkit.exercises.tree import tensors_in
from nbkit.exercises.verdict import Block, CheckResult, as_html, as_text, show
from nbkit.exercises.wording import at, first_difference, listed, literal, values


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
    exercise = _valid(exercise_id, function)
    seed = random.SystemRandom().randrange(1, 1_000_000) if seed is None else seed
    result = verdict_on(Bench(exercise, seed), function)
    show(result)
    if is_strict():
        if not result.passed:
            raise CheckFailed(result)
    elif result.message[:1] != "○":
        note_attempt(exercise.id, result.passed)
    return result


def _valid(exercise_id: object, function: object) -> Exercise:
    if not isinstance(exercise_id, str):
        raise TypeError('the exercise id comes first: nbkit.check("topic.name.1", function)')
    exercise = get_exercise(exercise_id)
    if not callable(function):
        raise TypeError(
            f"nbkit.check({exercise_id!r}, …) needs the function itself, not its result (a "
            f"{type(function).__name__}): write its name without parentheses"
        )
    return exercise


def verdict_on(bench: Bench, function: Callable[..., Any]) -> CheckResult:
    """Judge a function on a bench without printing or recording anything."""
    exercise, started = bench.exercise, time.perf_counter()
    misfit = _signature_misfit(exercise, bench, function)
    findings = [] if misfit else bench.judge(function)
    failure = first_failure(findings)
    mistakes: list[str] = []
    if misfit:
        state, headline, blocks = "failed", f"{exercise.id}: not right yet", [Block(misfit)]
        mistakes = [misfit]
    elif failure is None:
        state, (headline, blocks) = "passed", _passed(bench)
    elif isinstance(failure.seen.error, NotImplementedError):
        state, headline = "open", f"{exercise.id}: not implemented yet"
        where = learners_line(function, failure.seen.error_lines)
        blocks = [Block(f"Goal: {exercise.goal}")] + ([Block(f"Begin at {where}")] if where else [])
    else:
        mistakes = name_mistakes(bench, findings)
        state, headline = "failed", f"{exercise.id}: not right yet"
        blocks = _failed(bench, function, findings, failure, mistakes)
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


def _signature_misfit(exercise: Exercise, bench: Bench, function: Callable[..., Any]) -> str | None:
    if exercise.call is not call_with_inputs:
        return None
    names = [n for n in bench.runs[0].case.inputs if n not in exercise.hidden]
    try:
        signature = inspect.signature(function)
        signature.bind(*names)
    except TypeError as error:
        return f"your function takes {signature}; it is called with ({', '.join(names)}): {error}"
    except ValueError:  # a built-in without a signature
        return None
    return None


def _passed(bench: Bench) -> tuple[str, list[Block]]:
    edges = len({id(run.case) for run in bench.runs if run.is_edge})
    headline = (
        f"{bench.exercise.id} passed: {bench.case_count} cases, {edges} of them edges, "
        f"seed {bench.seed}"
    )
    return headline, [Block(f"Not tested: {bench.exercise.not_tested}")]


def _failed(
    bench: Bench,
    function: Callable[..., Any],
    findings: list[Finding],
    failure: Finding,
    mistakes: list[str],
) -> list[Block]:
    problem, seen = failure.problem, failure.seen
    assert problem is not None
    blocks = []
    if isinstance(seen.error, TimeLimitReached):
        limit = bench.exercise.time_limit_s
        blocks.append(Block(f"It was stopped: still running when its {limit:g} s were over."))
    elif problem.kind == "error":
        blocks.append(Block(_sentence(problem.sentence)))
    if seen.error is not None:
        where = learners_line(function, seen.error_lines)
        hint = error_hint(seen.error)
        blocks += [Block(f"It happened at {where}")] if where else []
        blocks += [Block(_sentence(hint))] if hint else []
    blocks += [Block(_sentence(text), is_strong=True) for text in mistakes]
    if problem.kind != "error" and (problem.kind != "value" or not mistakes):
        blocks.append(Block(_sentence(problem.sentence)))
    if problem.kind == "value" and not mistakes:
        blocks.append(Block("It looks like none of the known mistakes; follow this case by hand."))
    if seen.changed and problem.kind != "changed":
        names = listed([f"`{name}`" for name in seen.changed])
        blocks.append(Block(f"It also changes its input {names} in place: work on a copy."))
    blocks.append(Block(_tally(findings, failure)))
    if problem.kind != "dtype":
        blocks.append(Block(_details(bench.exercise, failure), is_code=True))
    if seen.printed:
        blocks += [Block("Your function printed:"), Block(seen.printed.rstrip("\n"), is_code=True)]
    name = getattr(function, "__name__", "function")
    blocks.append(
        Block(
            f'The same cases again: `nbkit.check("{bench.exercise.id}", {name}, seed={bench.seed})`'
        )
    )
    return blocks


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]  # a name of the code begins with a backtick and stays
    return text if text.endswith((".", "?", "!", ":")) else text + "."


def _tally(findings: list[Finding], failure: Finding) -> str:
    run, problem = failure.run, failure.problem
    tensors = tensors_in(run.inputs)
    kind = str(run.dtype).removeprefix("torch.")
    shown = run.case.name
    if any(tensor.is_floating_point() for tensor in tensors):
        shown += f", {kind}"
    if isinstance(failure.seen.error, TimeLimitReached):
        return f"The case ({shown}):"
    wrong = {id(f.run.case): f.run for f in findings if f.problem is not None}
    total = len({id(f.run.case) for f in findings})
    edges = [f"“{r.case.name}”" for r in wrong.values() if r.is_edge]
    if len(wrong) == total:
        text = f"All {total} cases fail"
    elif len(edges) == len(wrong) == 1:
        text = f"1 of {total} cases fails, the edge {edges[0]}"
    else:
        text = f"{len(wrong)} of {total} cases fail"
        text += f"; edges among them: {listed(edges)}" if edges else ""
    if problem is not None and problem.kind == "dtype":
        return text + "."
    return f"{text}. The smallest case ({shown}):"


def _details(exercise: Exercise, failure: Finding) -> str:
    problem, run = failure.problem, failure.run
    assert problem is not None
    lines = [
        f"{name} = {literal(value)}"
        for name, value in run.case.inputs.items()
        if name not in exercise.hidden
    ]
    if problem.kind in ("value", "gradient") or (problem.kind == "shape" and problem.where):
        label = f"gradient of {problem.where}" if problem.kind == "gradient" else problem.where
        lines += ["", f"{label}, expected: {values(problem.expected)}"]
        got = "none arrives" if problem.got is None else values(problem.got)
        if problem.kind == "gradient" or problem.got is not None:
            lines += [f"{label}, got:      {got}"]
        if isinstance(problem.expected, Tensor) and isinstance(problem.got, Tensor):
            part = first_difference(problem.expected, problem.got)
            if part is not None and problem.expected.dim():
                index, expected, got = part
                lines.append(
                    f"first difference at {at(label, index)}: expected {values(expected)}, "
                    f"got {values(got)}"
                )
    elif not problem.where.startswith("`"):
        for output, answer in zip(exercise.outputs, run.answers, strict=True):
            lines += ["", f"{output.name}, expected: {values(answer)}"]
    return "\n".join(lines)
