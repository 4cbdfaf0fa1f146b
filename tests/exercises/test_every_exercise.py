"""For every registered exercise: the check tells right from wrong, and says which wrong."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from bookkit.exercises.bench import Bench
from bookkit.exercises.check import verdict_on
from bookkit.exercises.exercise import Exercise, call_with_inputs
from bookkit.exercises.proof import (
    bench_for,
    mutant_faults,
    reference_faults,
    stub_faults,
    twin_faults,
)
from bookkit.exercises.registry import all_exercises

FIRST_SEEDS = (2, 3)
MORE_SEEDS = (1, *range(4, 21))
# The edges, which no seed changes, name every mutant (tested below): some seeds are enough.
MUTANT_SEEDS = range(1, 7)
EXERCISES = list(all_exercises().values())


def of_exercise(exercise: Exercise) -> Any:
    return pytest.param(exercise, id=exercise.id, marks=pytest.mark.chapter(exercise.chapter))


each_exercise = pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES])


def exact(exercises: Iterable[Exercise]) -> Any:
    """Those whose answers have the precision of the input; mutants of all others are proven too."""
    chosen = [of_exercise(e) for e in exercises if e.precision == "input"]
    return pytest.mark.parametrize("exercise", chosen)


@each_exercise
def test_reference_passes(exercise: Exercise) -> None:
    for seed in FIRST_SEEDS:
        assert not reference_faults(bench_for(exercise.id, seed))


@each_exercise
@pytest.mark.slow
def test_reference_passes_on_many_more_seeds(exercise: Exercise) -> None:
    for seed in MORE_SEEDS:
        assert not reference_faults(Bench(exercise, seed))


@each_exercise
def test_stub_is_met_with_not_implemented(exercise: Exercise) -> None:
    assert not stub_faults(bench_for(exercise.id, 2))


@each_exercise
def test_edges_alone_name_every_mutant(exercise: Exercise) -> None:
    """Edges do not depend on the seed, so no seed can miss a mutant or take it for another."""
    assert len(exercise.mutants) >= 3
    edges = Bench(exercise, 0, draws=0)
    assert not mutant_faults(edges)
    assert not twin_faults(edges)


@each_exercise
@pytest.mark.slow
def test_every_mutant_fails_with_its_own_message_on_several_seeds(exercise: Exercise) -> None:
    for seed in MUTANT_SEEDS:
        assert not mutant_faults(Bench(exercise, seed, draws=6))


@exact(EXERCISES)
def test_oracle_agrees_with_reference_at_float64(exercise: Exercise) -> None:
    compared = 0
    for finding in bench_for(exercise.id, 3).judge(exercise.reference):
        if finding.run.dtype != torch.float64:
            continue
        for output, answer, leaf in zip(
            exercise.outputs, finding.run.answers, finding.seen.leaves or (), strict=True
        ):
            if output.kind == "float":
                torch.testing.assert_close(leaf, answer, rtol=1e-10, atol=1e-9)
            compared += 1
    assert compared


@pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES if e.precision != "input"])
def test_what_says_bfloat16_has_no_more_digits(exercise: Exercise) -> None:
    """The field excuses an exercise from the tests above, so that it must not be said lightly."""
    worst = 0.0
    for finding in bench_for(exercise.id, 3).judge(exercise.reference):
        for output, answer, leaf in zip(
            exercise.outputs, finding.run.answers, finding.seen.leaves or (), strict=True
        ):
            if output.kind == "float":
                worst = max(worst, float((leaf - answer).abs().max()))
    assert worst > 1e-4


@each_exercise
def test_oracle_uses_none_of_our_package(exercise: Exercise) -> None:
    names = exercise.oracle.__code__.co_names
    assert "torch" not in names
    assert not [name for name in names if name.startswith("nbkit")]


def map_floats(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Apply a change to each floating tensor, or float, of a result."""
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return tuple(map_floats(change, v) for v in value)
    if isinstance(value, Tensor) and value.is_floating_point():
        return change(value)
    if isinstance(value, float):
        return float(change(torch.tensor(value, dtype=torch.float64)))
    return value


def spoilt(exercise: Exercise, change: Callable[[Tensor], Any]) -> Callable[..., Any]:
    def function(*args: Any, **options: Any) -> Any:
        return map_floats(change, exercise.reference(*args, **options))

    return function


def has_floats(exercise: Exercise) -> bool:
    return any(output.kind in ("float", "number") for output in exercise.outputs)


WITH_FLOATS = [of_exercise(e) for e in EXERCISES if has_floats(e)]
WITH_TENSORS = [of_exercise(e) for e in EXERCISES if any(o.kind == "float" for o in e.outputs)]
SPOILS: dict[str, Callable[[Tensor], Any]] = {
    "opposite sign": lambda x: -x,
    "zeros": lambda x: x * 0 if bool(x.isfinite().all()) else torch.zeros_like(x),
    "one added": lambda x: x + 1,
}


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("exercise", WITH_FLOATS)
def test_spoilt_values_fail(exercise: Exercise, spoil: str) -> None:
    result = verdict_on(bench_for(exercise.id, 2), spoilt(exercise, SPOILS[spoil]))
    assert not result.passed
    assert ", got:      " in result.message


@exact(e for e in EXERCISES if has_floats(e))
def test_ten_tolerances_too_large_fails(exercise: Exercise) -> None:
    rtol = max(output.rtol for output in exercise.outputs)
    assert rtol <= 1e-3, "a tolerance that lets a wrong answer through"
    result = verdict_on(bench_for(exercise.id, 2), spoilt(exercise, lambda x: x * (1 + 10 * rtol)))
    assert not result.passed


@each_exercise
def test_a_missing_return_is_named(exercise: Exercise) -> None:
    def forgets(*args: Any, **options: Any) -> None:
        exercise.reference(*args, **options)

    result = verdict_on(bench_for(exercise.id, 2), forgets)
    assert not result.passed
    assert "he function returned None (is the `return` missing?)" in result.message


@exact(e for e in EXERCISES if any(o.kind == "float" for o in e.outputs))
def test_fixed_float32_fails(exercise: Exercise) -> None:
    result = verdict_on(bench_for(exercise.id, 2), spoilt(exercise, lambda x: x.float()))
    assert not result.passed
    assert "fixes the precision" in result.message


@pytest.mark.parametrize("exercise", WITH_TENSORS)
def test_numpy_results_fail(exercise: Exercise) -> None:
    result = verdict_on(bench_for(exercise.id, 2), spoilt(exercise, lambda x: x.detach().numpy()))
    assert not result.passed
    assert "must be a torch tensor" in result.message
    assert "numpy.ndarray" in result.message


@pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES if e.gradient_to])
def test_cut_gradient_fails(exercise: Exercise) -> None:
    result = verdict_on(bench_for(exercise.id, 2), spoilt(exercise, lambda x: x.detach()))
    assert not result.passed
    assert "no gradient reaches" in result.message


def can_be_written_into(exercise: Exercise) -> bool:
    inputs = exercise.edges()[0].inputs.values()
    return exercise.call is call_with_inputs and any(isinstance(v, Tensor | list) for v in inputs)


@pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES if can_be_written_into(e)])
def test_writing_into_an_input_fails(exercise: Exercise) -> None:
    def vandal(*args: Any) -> Any:
        result = exercise.reference(*args)
        for value in args:
            if isinstance(value, Tensor) and value.numel():
                first = value.data.view(-1)[:1]
                first.copy_(~first if value.dtype == torch.bool else 1 - first)
            elif isinstance(value, list) and value:
                value.pop()
        return result

    result = verdict_on(bench_for(exercise.id, 2), vandal)
    assert not result.passed
    assert "in place" in result.message


@each_exercise
def test_seed_repeats_the_cases(exercise: Exercise) -> None:
    """Six of them: they have all sizes, and asking the oracle about the rest says no more."""
    one, other = Bench(exercise, 5, draws=6), Bench(exercise, 5, draws=6)
    different = Bench(exercise, 6, draws=6)
    assert [str(r.case.inputs) for r in one.runs] == [str(r.case.inputs) for r in other.runs]
    assert [str(r.case.inputs) for r in one.runs] != [str(r.case.inputs) for r in different.runs]


@each_exercise
def test_words_of_the_exercise(exercise: Exercise) -> None:
    assert exercise.not_tested.endswith(".")
    assert exercise.goal.endswith(".")
    assert exercise.minutes <= 120
    topic, name, number = exercise.id.split(".")
    assert topic and name and number.isdigit()
    messages = [mutant.message for mutant in exercise.mutants]
    assert len(set(messages)) == len(messages)
    assert min(len(message) for message in messages) > 40
