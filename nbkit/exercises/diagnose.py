"""Name the likely mistake behind a set of failures."""

import linecache
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from nbkit.exercises.bench import Bench, Finding
from nbkit.exercises.compare import Problem, leaf_problem, same_behaviour, same_leaf
from nbkit.exercises.limits import TimeLimitReached
from nbkit.exercises.registry import Mutant, Output
from nbkit.exercises.symptoms import Failure, read_shapes, read_symptoms

FEWEST_RUNS, SMALLEST_SHARE, MOST_NAMED = 2, 0.2, 3
NOT_THE_LEARNERS = ("site-packages", "dist-packages", "/nbkit/exercises/", "<frozen", "<string>")


def name_mistakes(bench: Bench, findings: list[Finding]) -> list[str]:
    """Sentences about the likely mistake, the surest first; empty if nothing is known.

    A mutant that does the same as the learner's function in every run is named outright, as is
    one that explains one of several results. Else those that account for a good part of the
    failing cases are named with that part, after what can be read off the wrong results.
    """
    for mutant in bench.exercise.mutants:
        pairs = list(_pairs(bench, findings, mutant))
        if len(pairs) == len(findings) and all(
            same_behaviour(bench.exercise, finding.seen, other.seen) for finding, other in pairs
        ):
            return [mutant.message]
    matches = {
        mutant.name: {
            i
            for i, (finding, other) in enumerate(_pairs(bench, findings, mutant))
            if same_behaviour(bench.exercise, finding.seen, other.seen)
        }
        for mutant in bench.exercise.mutants
    }
    failing = {i for i, finding in enumerate(findings) if finding.problem is not None}
    for mutant in bench.exercise.mutants:
        if len(failing) >= FEWEST_RUNS and failing <= matches[mutant.name]:
            return [f"wherever it fails, it does the same as this mistake: {mutant.message}"]
    by_output = _by_output(bench, findings)
    if by_output:
        return by_output
    marks = _marks(findings)
    return ([marks] if marks else []) + _partly(bench, findings, matches, failing)


def _pairs(
    bench: Bench, findings: list[Finding], mutant: Mutant
) -> Iterator[tuple[Finding, Finding]]:
    return zip(findings, bench.mutant_findings[mutant.name], strict=False)


def _by_output(bench: Bench, findings: list[Finding]) -> list[str]:
    """For functions with several results: the mutants that explain a result as a whole."""
    outputs = bench.exercise.outputs
    if len(outputs) < 2 or any(len(f.seen.leaves or ()) != len(outputs) for f in findings):
        return []
    sentences = []
    for k, output in enumerate(outputs):
        if not any(_is_wrong(finding, output, k) for finding in findings):
            continue
        for mutant in bench.exercise.mutants:
            pairs = list(_pairs(bench, findings, mutant))
            if len(pairs) == len(findings) and all(
                len(other.seen.leaves or ()) == len(outputs)
                and same_leaf(output, (finding.seen.leaves or ())[k], (other.seen.leaves or ())[k])
                for finding, other in pairs
            ):
                sentences.append(f"`{output.name}`: {mutant.message}")
                break
    return sentences


def _is_wrong(finding: Finding, output: Output, k: int) -> bool:
    run, leaves = finding.run, finding.seen.leaves or ()
    return leaf_problem(output, leaves[k], run.answers[k], run.dtype) is not None


def _partly(
    bench: Bench, findings: list[Finding], matches: dict[str, set[int]], failing: set[int]
) -> list[str]:
    """The mutants that together account for most failing cases, each with its share."""
    left, sentences = set(failing), []
    needed = max(FEWEST_RUNS, SMALLEST_SHARE * len(failing))
    for _ in range(MOST_NAMED):
        best = max(bench.exercise.mutants, key=lambda m: len(left & matches[m.name]), default=None)
        if best is None or len(left & matches[best.name]) < needed:
            break
        part, whole = (
            len({id(findings[i].run.case) for i in group})
            for group in (left & matches[best.name], failing)
        )
        sentences.append(f"{part} of the {whole} failing cases look like this: {best.message}")
        left -= matches[best.name]
    return sentences


def _marks(findings: list[Finding]) -> str | None:
    """What the wrong shapes have in common, else the wrong values, else the wrong gradients."""
    shapes = [
        (tuple(p.expected.shape), tuple(p.got.shape))
        for p in _problems_with_tensors(findings, "shape")
    ]
    if shapes:
        return read_shapes(shapes)
    for kind in ("value", "gradient"):
        failures: dict[str, list[Failure]] = {}
        for finding in findings:
            for p in _problems_with_tensors([finding], kind):
                name = f"gradient of {p.where}" if kind == "gradient" else p.where
                failure = Failure(
                    name, p.expected.double(), p.got.double(), finding.run.case.inputs
                )
                failures.setdefault(name, []).append(failure)
        sentences = [read_symptoms(group) for group in failures.values()]
        if failures:
            return next((sentence for sentence in sentences if sentence), None)
    return None


def _problems_with_tensors(findings: list[Finding], kind: str) -> list[Problem]:
    problems = [finding.problem for finding in findings if finding.problem is not None]
    return [
        p
        for p in problems
        if p.kind == kind and isinstance(p.expected, Tensor) and isinstance(p.got, Tensor)
    ]


def learners_line(function: Callable[..., Any], lines: traceback.StackSummary | None) -> str | None:
    """Where in the learner's own code an exception arose: ``line 7, `x = y[3]` ``."""
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    candidates = [
        frame for frame in lines or [] if frame.filename == own or not _foreign(frame.filename, own)
    ]
    if not candidates:
        return None
    frame = candidates[-1]
    text = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"line {frame.lineno}, in {frame.name}: `{text}`" if text else f"line {frame.lineno}"


def _foreign(filename: str, own: str | None) -> bool:
    name = filename.replace("\\", "/")
    if any(part in name for part in NOT_THE_LEARNERS):
        return True
    library = Path(traceback.__file__).parent
    return Path(filename).is_relative_to(library)


ERROR_HINTS: tuple[tuple[str, str], ...] = (
    (
        "a leaf Variable that requires grad",
        "your function writes into one of its inputs: build a new tensor instead",
    ),
    (
        "modified by an inplace operation",
        "a tensor that the backward pass needs was overwritten: avoid += and x[...] = on it",
    ),
    (
        "only integer tensors",
        "an index must be an int64 or bool tensor",
    ),
    (
        "truth value of a Tensor",
        "an `if` or `and` on a whole tensor: use torch.where, &, or .any()/.all()",
    ),
    (
        "Boolean value of Tensor",
        "an `if` or `and` on a whole tensor: use torch.where, &, or .any()/.all()",
    ),
    (
        "Index tensor must have the same number of dimensions",
        "gather wants an index with as many axes as its input: tokens[..., None]",
    ),
    (
        "expected scalar type",
        "two tensors of different precision met: make new tensors with dtype=x.dtype",
    ),
    (
        "must match the size of tensor",
        "two shapes do not fit: print both before that line",
    ),
)


def error_hint(error: BaseException) -> str | None:
    """A word on torch errors that learners meet often."""
    if isinstance(error, TimeLimitReached):
        return "look for a `while` whose condition never becomes false"
    text = str(error)
    return next((hint for mark, hint in ERROR_HINTS if mark in text), None)
