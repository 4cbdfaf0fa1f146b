"""The words of a verdict: what passed, what failed, and on which case."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from bookkit.exercises.bench import Bench, Finding
from bookkit.exercises.diagnose import error_hint, learners_line
from bookkit.exercises.exercise import Exercise
from bookkit.exercises.limits import IDLE_SECONDS, TimeLimitReached
from bookkit.exercises.tree import tensors_in
from bookkit.exercises.verdict import Block
from bookkit.exercises.wording import at, first_difference, listed, literal, values


def passed(bench: Bench) -> tuple[str, list[Block]]:
    """Headline and text of a pass."""
    edges = len({id(run.case) for run in bench.runs if run.is_edge})
    headline = (
        f"{bench.exercise.id} passed: {bench.case_count} cases, {edges} of them edges, "
        f"seed {bench.seed}"
    )
    return headline, [Block(f"Not tested: {bench.exercise.not_tested}")]


def failed(
    bench: Bench,
    function: Callable[..., Any],
    findings: list[Finding],
    failure: Finding,
    mistakes: list[str],
) -> list[Block]:
    """The text of a failure: the likely mistake, the error if any, the case to look at."""
    problem, seen = failure.problem, failure.seen
    assert problem is not None
    blocks = []
    if isinstance(seen.error, TimeLimitReached):
        blocks.append(Block(_stopped(seen.error, bench.exercise.time_limit_s)))
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


def _stopped(error: TimeLimitReached, limit: float) -> str:
    if error.hangs:
        return (
            "It was stopped: it hangs, waiting for something that does not come; it computed "
            f"nothing for {IDLE_SECONDS:g} s."
        )
    return f"It was stopped: still running when its {limit:g} s of processor time were used up."


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
