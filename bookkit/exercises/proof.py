"""Proof that a check is worth passing.

The tests run this for every registered exercise; an author runs it with the command ``prove``.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from bookkit.exercises.bench import Bench, first_failure
from bookkit.exercises.check import verdict_on
from bookkit.exercises.compare import same_behaviour
from bookkit.exercises.diagnose import name_mistakes
from bookkit.exercises.exercise import Exercise
from bookkit.exercises.registry import get_exercise


def stub(*_args: Any, **_options: Any) -> Any:
    """What the exercise notebook holds before a learner begins."""
    raise NotImplementedError("write this function")


@lru_cache(maxsize=256)
def bench_for(exercise_id: str, seed: int) -> Bench:
    """The bench of a registered exercise, kept, because its oracle is slow."""
    return Bench(get_exercise(exercise_id), seed)


def prove_exercise(exercise: Exercise, seeds: Iterable[int]) -> list[str]:
    """All ways in which the check is not as good as it claims; empty is a proof.

    The edges are the same for every seed. So where they alone tell all mutants from the right
    answer and from each other, which is asked first, every seed does.
    """
    edges = Bench(exercise, 0, draws=0)
    faults = [f"by the edges alone: {fault}" for fault in mutant_faults(edges) + twin_faults(edges)]
    for seed in seeds:
        bench = Bench(exercise, seed)
        faults += reference_faults(bench) + stub_faults(bench) + mutant_faults(bench)
    return faults


def reference_faults(bench: Bench) -> list[str]:
    """The reference must pass."""
    result = verdict_on(bench, bench.exercise.reference)
    return [] if result.passed else [f"the reference fails on seed {bench.seed}:\n{result.message}"]


def stub_faults(bench: Bench) -> list[str]:
    """The stub must be met with 'not implemented yet'."""
    result = verdict_on(bench, stub)
    if not result.passed and "not implemented yet" in result.message:
        return []
    return [f"the stub is not recognised on seed {bench.seed}: {result.message}"]


def mutant_faults(bench: Bench) -> list[str]:
    """Every mutant must fail and be met with its own message and no other's."""
    faults = []
    for mutant in bench.exercise.mutants:
        findings = bench.mutant_findings[mutant.name]
        if first_failure(findings) is None:
            faults.append(f"mutant {mutant.name!r} passes on seed {bench.seed}")
        elif name_mistakes(bench, findings) != [mutant.message]:
            said = name_mistakes(bench, findings)
            faults.append(f"mutant {mutant.name!r} on seed {bench.seed} is told: {said}")
    return faults


def twin_faults(bench: Bench) -> list[str]:
    """No two mutants may do the same everywhere: one of the two messages would be a guess."""
    faults = []
    mutants = bench.exercise.mutants
    for i, one in enumerate(mutants):
        for other in mutants[i + 1 :]:
            pairs = zip(
                bench.mutant_findings[one.name], bench.mutant_findings[other.name], strict=False
            )
            if all(same_behaviour(bench.exercise, a.seen, b.seen) for a, b in pairs):
                faults.append(f"mutants {one.name!r} and {other.name!r} cannot be told apart")
    return faults
