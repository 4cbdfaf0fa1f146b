"""Name the likely mistake behind a set of failures."""

import linecache
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from bookkit.exercises.bench import Bench, Finding
from bookkit.exercises.compare import NOTHING, Problem, leaf_problem, same_behaviour, same_leaf
from bookkit.exercises.exercise import Mutant, Output
from bookkit.exercises.limits import TimeLimitReached
from bookkit.exercises.symptoms import (
    GRADIENT_OF,
    Failure,
    not_a_number,
    read_shapes,
    read_symptoms,
)
from bookkit.exercises.wording import listed

FEWEST_CASES, MOST_NAMED = 2, 3
NOT_THE_LEARNERS = ("site-packages", "dist-packages", "<frozen", "<string>")
LIBRARIES = (Path(traceback.__file__).parent, Path(__file__).parent)


def name_mistakes(bench: Bench, findings: list[Finding]) -> list[str]:
    """Sentences about the likely mistake; empty if nothing is known.

    In this order: None in every case; a mutant that does the same as the learner's function in
    every run; one that does the same wherever it fails; for functions with several results, mutants
    that explain one of them; what can be read off the wrong results; mutants that explain some of
    the cases.
    """
    if all(_gave_none(f) for f in findings):
        return [f"{NOTHING} in every case"]
    for mutant in bench.exercise.mutants:
        pairs = list(_pairs(bench, findings, mutant))
        if len(pairs) == len(findings) and all(
            same_behaviour(bench.exercise, finding.seen, other.seen) for finding, other in pairs
        ):
            return [mutant.message]
    evidence = Evidence(bench, findings)
    mutant_of_all = evidence.explains_every_failure()
    if mutant_of_all is not None:
        return [f"wherever it fails, it does the same as this mistake: {mutant_of_all.message}"]
    by_output = _by_output(bench, findings)
    if by_output:
        return by_output
    failures = _failures(findings)
    marks = _marks(findings, failures)
    if marks:
        return [marks]
    holes = [sentence for group in failures.values() if (sentence := not_a_number(group))]
    return evidence.explain_parts() + holes[:1]


def _gave_none(finding: Finding) -> bool:
    return len(finding.seen.leaves or ()) == 1 and (finding.seen.leaves or ())[0] is None


def _pairs(
    bench: Bench, findings: list[Finding], mutant: Mutant
) -> Iterator[tuple[Finding, Finding]]:
    return zip(findings, bench.mutant_findings[mutant.name], strict=False)


class Evidence:
    """Which mutants do the same as the learner's function in which failing runs."""

    def __init__(self, bench: Bench, findings: list[Finding]):
        self.bench = bench
        self.findings = findings
        self.failing = {i for i, f in enumerate(findings) if f.problem is not None}
        self.matches = {
            mutant.name: {
                i
                for i, (finding, other) in enumerate(_pairs(bench, findings, mutant))
                if i in self.failing and same_behaviour(bench.exercise, finding.seen, other.seen)
            }
            for mutant in bench.exercise.mutants
        }

    def explains_every_failure(self) -> Mutant | None:
        """A mutant that is the same in all failing runs, and fails in few others."""
        for mutant in self.bench.exercise.mutants:
            wrong = sum(f.problem is not None for f in self.bench.mutant_findings[mutant.name])
            if self.failing <= self.matches[mutant.name] and len(self.failing) >= wrong / 2:
                return mutant
        return None

    def explain_parts(self) -> list[str]:
        """Mutants that alone explain two failing cases, or an edge, each with its share."""
        alone: dict[str, set[int]] = {name: set() for name in self.matches}
        for i in self.failing:
            names = [name for name, runs in self.matches.items() if i in runs]
            if len(names) == 1 and _says_something(self.findings[i].seen.leaves):
                alone[names[0]].add(i)
        telling = [
            mutant
            for mutant in self.bench.exercise.mutants
            if len(self._cases(alone[mutant.name])) >= FEWEST_CASES
            or any(self.findings[i].run.is_edge for i in alone[mutant.name])
        ]
        telling.sort(key=lambda mutant: -len(self._cases(self.matches[mutant.name])))
        whole = len(self._cases(self.failing))
        return [
            f"perhaps ({len(self._cases(self.matches[m.name]))} of the {whole} failing cases look "
            f"like it): {m.message}"
            for m in telling[:MOST_NAMED]
        ]

    def _cases(self, runs: set[int]) -> set[int]:
        return {id(self.findings[i].run.case) for i in runs}


def _says_something(leaves: tuple[Any, ...] | None) -> bool:
    """Whether results are more than zeros, ones and nan, which may agree by chance."""
    if leaves is None:
        return True
    entries = [
        value
        for leaf in leaves
        for value in (leaf.reshape(-1).tolist() if isinstance(leaf, Tensor) else [leaf])
    ]
    return any(value == value and value not in (0, 1, -1) for value in entries)


def _by_output(bench: Bench, findings: list[Finding]) -> list[str]:
    """For functions with several results: the mutants that explain a result as a whole."""
    outputs = bench.exercise.outputs
    if len(outputs) < 2:
        return []
    usable = [i for i, f in enumerate(findings) if len(f.seen.leaves or ()) == len(outputs)]
    if len(usable) < len(findings) / 2:
        return []
    sentences, unexplained = [], []
    for k, output in enumerate(outputs):
        if not any(_is_wrong(findings[i], output, k) for i in usable):
            continue
        for mutant in bench.exercise.mutants:
            others = bench.mutant_findings[mutant.name]
            if all(i < len(others) and _same_output(findings[i], others[i], k) for i in usable):
                sentences.append(f"`{output.name}`: {mutant.message}")
                break
        else:
            unexplained.append(f"`{output.name}`")
    if sentences and unexplained:
        differ = "differs" if len(unexplained) == 1 else "differ"
        sentences.append(
            f"{listed(unexplained)} {differ} too, and not as any of the known mistakes makes it"
        )
    return sentences


def _same_output(finding: Finding, other: Finding, k: int) -> bool:
    own, theirs = finding.seen.leaves or (), other.seen.leaves or ()
    outputs = finding.run.exercise.outputs
    return len(theirs) == len(outputs) and same_leaf(outputs[k], own[k], theirs[k])


def _is_wrong(finding: Finding, output: Output, k: int) -> bool:
    run, leaves = finding.run, finding.seen.leaves or ()
    return leaf_problem(output, leaves[k], run.answers[k], run.dtype) is not None


def _failures(findings: list[Finding]) -> dict[str, list[Failure]]:
    """The wrong values by output; or, where all values are right, the wrong gradients by input."""
    failures: dict[str, list[Failure]] = {}
    for kind in ("value", "gradient"):
        for finding in findings:
            for p in _problems_with_tensors([finding], kind):
                name = f"{GRADIENT_OF}{p.where}" if kind == "gradient" else p.where
                failure = Failure(
                    name, p.expected.double(), p.got.double(), finding.run.case.inputs
                )
                failures.setdefault(name, []).append(failure)
        if failures:
            break
    return failures


def _marks(findings: list[Finding], failures: dict[str, list[Failure]]) -> str | None:
    """What all wrong shapes have in common, else all wrong values or gradients."""
    shapes = [
        (tuple(p.expected.shape), tuple(p.got.shape))
        for p in _problems_with_tensors(findings, "shape")
    ]
    if shapes and 2 * len(shapes) >= sum(f.problem is not None for f in findings):
        return read_shapes(shapes)
    sentences = [read_symptoms(group) for group in failures.values()]
    return next((sentence for sentence in sentences if sentence), None)


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
        frame for frame in lines or [] if frame.filename == own or not _foreign(frame.filename)
    ]
    if not candidates:
        return None
    frame = candidates[-1]
    text = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"line {frame.lineno}, in {frame.name}: `{text}`" if text else f"line {frame.lineno}"


def _foreign(filename: str) -> bool:
    if any(part in filename for part in NOT_THE_LEARNERS):
        return True
    return any(Path(filename).is_relative_to(folder) for folder in LIBRARIES)


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
        "`gather` wants an index with as many axes as its input: tokens[..., None]",
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
