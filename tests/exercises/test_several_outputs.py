"""A function with several results: a mistake that is named in one hides none in another."""

import torch
from torch import Tensor

from bookkit.exercises.bench import Bench
from bookkit.exercises.check import verdict_on
from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Mutant, Output
from tests.exercises.small import small_exercise


def both(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(), x.max()


def oracle(x: list[float]) -> tuple[float, float]:
    return sum(x), max(x)


def mean_for_sum(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(), x.max()


def least_for_greatest(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(), x.min()


def cases(draw: Draw) -> Case:
    length = draw.dimension(2)
    return Case(f"{length} numbers", {"x": draw.normal(length)})


EXERCISE = small_exercise(
    id="small.both.1",
    outputs=(Output("total", "()"), Output("greatest", "()")),
    cases=cases,
    edges=lambda: (Case("two", {"x": torch.tensor([1.0, 3.0], dtype=torch.float64)}),),
    oracle=oracle,
    reference=both,
    mutants=(
        Mutant("mean", mean_for_sum, "this is the mean, not the sum"),
        Mutant("least", least_for_greatest, "this is the least entry, not the greatest"),
    ),
    gradient_to=(),
    no_gradient_to=(),
)


def mistakes(function) -> tuple[str, ...]:
    return verdict_on(Bench(EXERCISE, 3), function).mistakes


def test_a_second_mistake_that_nobody_knows_is_said_beside_the_first():
    said = mistakes(lambda x: (x.mean(), x.max() + 7))
    assert said == (
        "`total`: this is the mean, not the sum",
        "`greatest` differs too, and not as any of the known mistakes makes it",
    )


def test_two_known_mistakes_are_both_named():
    said = mistakes(lambda x: (x.mean(), x.min()))
    assert said == (
        "`total`: this is the mean, not the sum",
        "`greatest`: this is the least entry, not the greatest",
    )


def test_one_mistake_alone_says_nothing_of_the_other_output():
    assert mistakes(mean_for_sum) == ("this is the mean, not the sum",)
