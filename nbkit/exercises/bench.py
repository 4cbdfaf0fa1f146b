"""All the questions of one check, with their answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nbkit.exercises.compare import Problem, find_problem
from nbkit.exercises.draw import Draw
from nbkit.exercises.limits import TimeLimitReached
from nbkit.exercises.observe import Observation, cast, observe
from nbkit.exercises.oracle import ask, cotangents, expected_gradients
from nbkit.exercises.registry import Case, Exercise


@dataclass(frozen=True)
class Run:
    """One case in one precision, with the oracle's answers and gradients."""

    case: Case
    dtype: torch.dtype
    is_edge: bool
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
    """The edges and the fresh cases that a seed gives, each in float32 and float64.

    Inputs without a floating tensor are asked once. Gradients are compared in float64 only.
    """

    def __init__(self, exercise: Exercise, seed: int):
        self.exercise = exercise
        self.seed = seed
        edges = [(case, True) for case in exercise.edges()]
        drawn = [(self._draw(i), False) for i in range(exercise.draws)]
        self.runs = [
            self._prepare(case, dtype, is_edge)
            for case, is_edge in edges + drawn
            for dtype in self._precisions(case)
        ]

    @property
    def case_count(self) -> int:
        """How many different cases there are."""
        return len({id(run.case) for run in self.runs})

    def _draw(self, i: int) -> Case:
        size = 1 + (6 * i) // max(self.exercise.draws, 1)
        return self.exercise.cases(Draw(self.seed * 1000 + i, size))

    @staticmethod
    def _precisions(case: Case) -> tuple[torch.dtype, ...]:
        tensors = [v for v in case.inputs.values() if isinstance(v, Tensor)]
        if any(v.is_floating_point() for v in tensors):
            return (torch.float32, torch.float64)
        return (torch.float64,)

    def _prepare(self, case: Case, dtype: torch.dtype, is_edge: bool) -> Run:
        exercise = self.exercise
        inputs = cast(case.inputs, dtype)
        answers = ask(exercise, inputs)
        watched = exercise.gradient_to + exercise.no_gradient_to
        if not (watched and case.gradient and dtype == torch.float64):
            return Run(case, dtype, is_edge, answers, None, {})
        gradients = expected_gradients(exercise, inputs)
        return Run(case, dtype, is_edge, answers, cotangents(exercise, answers), gradients)

    def judge(self, function: Callable[..., Any]) -> list[Finding]:
        """Run the function on everything; stops early when its time is up."""
        findings: list[Finding] = []
        deadline = time.monotonic() + self.exercise.time_limit_s
        for run in self.runs:
            left = deadline - time.monotonic()
            seen = observe(self.exercise, function, run.case, run.dtype, run.weights, left)
            problem = find_problem(self.exercise, seen, run.answers, run.gradients, run.dtype)
            findings.append(Finding(run, seen, problem))
            if isinstance(seen.error, (TimeLimitReached, NotImplementedError)):
                break
        return findings

    @cached_property
    def mutant_findings(self) -> dict[str, list[Finding]]:
        """What each registered mutant does in every run."""
        return {m.name: self.judge(m.function) for m in self.exercise.mutants}


def first_failure(findings: list[Finding]) -> Finding | None:
    """The finding to show: the smallest case with the most basic problem."""
    failures = [f for f in findings if f.problem is not None]
    if not failures:
        return None
    return min(failures, key=_order)


def _order(finding: Finding) -> tuple[bool, int, int, bool]:
    problem = finding.problem
    assert problem is not None
    in_time = not isinstance(finding.seen.error, TimeLimitReached)
    return in_time, problem.rank, finding.run.case.size, finding.run.dtype == torch.float32
