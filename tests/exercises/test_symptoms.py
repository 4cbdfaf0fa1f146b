"""Marks that are read off wrong results: each is found where it is, and not elsewhere."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from bookkit.exercises.symptoms import (
    Failure,
    not_a_number,
    read_shapes,
    read_symptoms,
)


def failures(
    change: Callable[[Tensor], Tensor], shapes: tuple[tuple[int, ...], ...] = ((2, 4), (3, 5))
) -> list[Failure]:
    generator = torch.Generator().manual_seed(0)
    result = []
    for shape in shapes:
        right = torch.randn(shape, generator=generator, dtype=torch.float64)
        result.append(Failure("y", right, change(right), {"x": right}))
    return result


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: -y, "opposite sign"),
        (lambda y: 0 * y, "zero in every failing case"),
        (lambda y: 0.25 * y, "0.25 times the right answer"),
        (lambda y: y * y.shape[0], "times the size of axis 0 of `x`"),
        (lambda y: y / y.shape[1], "divided by the size of axis 1 of `x`"),
        (lambda y: y * y.shape[0] / y.shape[1], "over the wrong axis"),
        (lambda y: y + 0.5, "the right answer plus 0.5"),
        (lambda y: y * 1.0011 + 0.0001, "nearly right"),
        (lambda y: torch.roll(y, 1, -1), "too far to the right"),
        (lambda y: torch.roll(y, -1, -1), "too far to the left"),
        (lambda y: y.flip(-1), "backwards along the last axis"),
    ],
)
def test_symptom_is_read(change: Callable[[Tensor], Tensor], words: str) -> None:
    sentence = read_symptoms(failures(change, ((2, 4), (3, 5), (4, 6))))
    assert sentence is not None and words in sentence


@pytest.mark.parametrize(
    "change", [lambda y: y**2, lambda y: y.sort(-1).values, lambda y: torch.rand_like(y)]
)
def test_unknown_mistake_gets_no_symptom(change: Callable[[Tensor], Tensor]) -> None:
    assert read_symptoms(failures(change, ((2, 4), (3, 5), (4, 6)))) is None


def test_one_case_is_too_little_for_a_factor() -> None:
    (one,) = failures(lambda y: 3 * y, ((2, 4),))
    assert read_symptoms([one, one]) is None, "one case in two precisions is one case"


def test_wrong_where_zero_is_right_is_no_factor() -> None:
    zero = torch.zeros(2, 4, dtype=torch.float64)
    odd = Failure("y", zero, zero + 1, {"x": zero})
    assert read_symptoms([*failures(lambda y: 3 * y), odd]) is None


def test_inverted_mask() -> None:
    mask = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    sentence = read_symptoms([Failure("mask", mask, 1 - mask, {})])
    assert sentence is not None and "inverted" in sentence


def test_only_masked_places_wrong() -> None:
    mask = torch.tensor([[True, False, True]])
    right = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    got = torch.tensor([[1.0, 9.0, 2.0]], dtype=torch.float64)
    sentence = read_symptoms([Failure("y", right, got, {"mask": mask})])
    assert sentence is not None and "right wherever the mask counts" in sentence


def test_first_row_right() -> None:
    def spoil(y: Tensor) -> Tensor:
        return torch.cat([y[:1], y[1:] ** 2])

    sentence = read_symptoms(failures(spoil, ((2, 4), (3, 5), (4, 6))))
    assert sentence is not None and "right in the first row" in sentence


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "Multiplying by a mask does not remove it"),
        (1000.0, "overflows on the large entries of `x`"),
        (1.0, "look for 0/0"),
    ],
)
def test_nan_is_traced_to_its_source(value: float, words: str) -> None:
    x = torch.full((2, 3), value, dtype=torch.float64)
    right = torch.ones(2, 3, dtype=torch.float64)
    sentence = not_a_number([Failure("y", right, right * float("nan"), {"x": x})])
    assert sentence is not None and words in sentence


def test_nan_in_some_runs_says_in_how_many() -> None:
    good, bad = failures(lambda y: y + 1)
    bad = Failure("y", bad.expected, bad.got * float("nan"), bad.inputs)
    sentence = not_a_number([good, bad])
    assert sentence is not None and sentence.startswith("in 1 of 2 failing runs")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([((2, 3), (3, 2)), ((1, 4), (4, 1))], "axes are exchanged"),
        ([((2,), (2, 1)), ((1,), (1, 1))], "axis of length 1 is left over"),
        ([((2,), (2, 2)), ((1,), (1, 1))], "broadcast to every pair"),
        ([((2, 3), (2, 4))], "one too long"),
        ([((2, 3), (2, 2))], "one too short"),
        ([((2, 3), ())], "reduced to a single number"),
        ([((), (2,))], "not reduced to a single number"),
        ([((2, 3), (2,))], "an axis is missing"),
    ],
)
def test_shapes_are_read(pairs: list[tuple[tuple[int, ...], tuple[int, ...]]], words: str) -> None:
    sentence = read_shapes(pairs)
    assert sentence is not None and words in sentence


def test_shapes_without_a_common_cause() -> None:
    assert read_shapes([((2, 3), (3, 2)), ((2, 3), (7, 7))]) is None
    assert read_shapes([]) is None


def test_a_gradient_that_is_nan_while_the_values_are_right_is_not_called_an_overflow() -> None:
    def entropy(logits: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(logits, -1)
        return -torch.where(p > 0, p * p.log(), 0.0).sum(-1)

    result = verdict_on(bench_for("ppo.entropy.1", 3), entropy)
    assert not result.passed
    (said,) = result.mistakes
    assert "the gradient that reaches `logits` is nan or inf: a branch that torch.where" in said
    assert "overflow" not in result.message
