"""All the questions of one check, with their answers."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.compare import Problem, find_problem
from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Exercise, Mutant
from bookkit.exercises.limits import TimeLimitReached, processor_seconds
from bookkit.exercises.observe import Observation, cast, observe, random_state_kept
from bookkit.exercises.oracle import ask, cotangents, expected_gradients
from bookkit.exercises.special import special_cases
from bookkit.exercises.tree import tensors_in
from bookkit.exercises.wide import wide_cases

FLOAT32_EVERY = 4


@dataclass(frozen=True)
class Run:
    """One case in one precision, with the oracle's answers and gradients."""

    exercise: Exercise
    case: Case
    dtype: torch.dtype
    is_edge: bool
    inputs: dict[str, Any]
    answers: tuple[Any, ...]
    weights: list[Tensor | None] | None
    gradients: dict[str, Tensor]


@dataclass(frozen=True)
class Finding:
    """What a function did in a run, and what is wrong with it."""

    run: Run
    seen: Observation
    problem: Problem | None


class Bench:
    """The edges and the fresh cases that a seed gives, wide ones among them.

    Edges, and every fourth fresh case, are asked in float32 and float64, the others in float64;
    inputs without a floating tensor are asked once. Gradients are compared in float64 only.

    Args:
        exercise: the exercise.
        seed: gives the fresh cases.
        draws: how many fresh cases; default as the exercise says. 0 leaves the edges alone.
    """

    def __init__(self, exercise: Exercise, seed: int, draws: int | None = None):
        self.exercise = exercise
        self.seed = seed
        count = exercise.draws if draws is None else draws
        self.drawn = [
            prepare(exercise, case, dtype, is_edge=False)
            for i in range(count)
            for case in [exercise.cases(Draw(seed * 1000 + i, 1 + (6 * i) // count))]
            for dtype in precisions(case, both=i % FLOAT32_EVERY == 0)
        ]
        self.drawn += [
            prepare(exercise, case, torch.float64, is_edge=False)
            for case in (made_cases(exercise, seed) if count else [])
        ]
        self.runs = [*edge_runs(exercise), *self.drawn]

    @property
    def case_count(self) -> int:
        """How many different cases there are."""
        return len({id(run.case) for run in self.runs})

    def judge(self, function: Callable[..., Any]) -> list[Finding]:
        """Run the function on everything; stops early when its time is up."""
        return judge(self.exercise, self.runs, function)

    @cached_property
    def mutant_findings(self) -> dict[str, list[Finding]]:
        """What each registered mutant does in every run."""
        return {
            mutant.name: [
                *edge_findings(self.exercise, mutant),
                *judge_quietly(self.exercise, self.drawn, mutant),
            ]
            for mutant in self.exercise.mutants
        }


def made_cases(exercise: Exercise, seed: int) -> list[Case]:
    """Drawn cases that were changed: to far entries and holes, to special values."""
    return [*wide_cases(exercise, seed), *special_cases(exercise, seed)]


def precisions(case: Case, *, both: bool) -> tuple[torch.dtype, ...]:
    """In which precisions a case is asked."""
    tensors = tensors_in(dict(case.inputs))
    if both and any(tensor.is_floating_point() for tensor in tensors):
        return (torch.float32, torch.float64)
    return (torch.float64,)


def prepare(exercise: Exercise, case: Case, dtype: torch.dtype, *, is_edge: bool) -> Run:
    """Ask the oracle about a case."""
    inputs = cast(case.inputs, dtype)
    answers = ask(exercise, inputs)
    watched = exercise.gradient_to + exercise.no_gradient_to
    if not (watched and case.gradient and dtype == torch.float64):
        return Run(exercise, case, dtype, is_edge, inputs, answers, None, {})
    gradients = expected_gradients(exercise, inputs)
    weights = cotangents(exercise, answers)
    return Run(exercise, case, dtype, is_edge, inputs, answers, weights, gradients)


@cache
def edge_runs(exercise: Exercise) -> tuple[Run, ...]:
    """The edges of an exercise with their answers; they are the same for every seed."""
    return tuple(
        prepare(exercise, case, dtype, is_edge=True)
        for case in exercise.edges()
        for dtype in precisions(case, both=True)
    )


@cache
def edge_findings(exercise: Exercise, mutant: Mutant) -> tuple[Finding, ...]:
    """What a mutant does on the edges."""
    return tuple(judge_quietly(exercise, edge_runs(exercise), mutant))


def judge_quietly(exercise: Exercise, runs: Sequence[Run], mutant: Mutant) -> list[Finding]:
    """Run a mutant; its warnings would only puzzle the learner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judge(exercise, runs, mutant.function)


def judge(exercise: Exercise, runs: Sequence[Run], function: Callable[..., Any]) -> list[Finding]:
    """Run a function; stops early when its time is up or when it is not written yet."""
    findings: list[Finding] = []
    began = processor_seconds()
    with random_state_kept():
        for run in runs:
            left = exercise.time_limit_s - (processor_seconds() - began)
            seen = observe(exercise, function, run.inputs, run.weights, left)
            problem = find_problem(exercise, seen, run.answers, run.gradients, run.dtype)
            findings.append(Finding(run, seen, problem))
            if isinstance(seen.error, (TimeLimitReached, NotImplementedError)):
                break
    return findings


def first_failure(findings: list[Finding]) -> Finding | None:
    """The finding to show: of the commonest problem of the most basic kind, the smallest case."""
    failures = [f for f in findings if f.problem is not None]
    if not failures:
        return None
    counts = Counter(_sort_of_problem(f) for f in failures)

    def order(finding: Finding) -> tuple[bool, int, int, int, bool]:
        problem, run = finding.problem, finding.run
        assert problem is not None
        in_time = not isinstance(finding.seen.error, (TimeLimitReached, NotImplementedError))
        common = counts[_sort_of_problem(finding)]
        return in_time, problem.rank, -common, run.case.size, run.dtype == torch.float32

    return min(failures, key=order)


def _sort_of_problem(finding: Finding) -> tuple[str, str]:
    kind = finding.problem.kind if finding.problem is not None else ""
    return kind, type(finding.seen.error).__name__
