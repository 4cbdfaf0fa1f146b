"""Nested inputs: copied, cast, compared."""

from typing import Any

import pytest
import torch

from bookkit.exercises.bench import Bench
from bookkit.exercises.check import verdict_on
from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Exercise, Mutant, Output
from bookkit.exercises.observe import cast, copies
from bookkit.exercises.tree import as_lists, same, tensors_in

NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), False),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, NAN]), False),
        (torch.tensor([1.0]), torch.tensor([1]), False),
        (torch.tensor([1.0]), [1.0], False),
        ([torch.tensor([1, 2])], [torch.tensor([1, 2])], True),
        ([torch.tensor([1, 2])], [1], False),
        ({"a": [1, (2, NAN)]}, {"a": [1, (2, NAN)]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [1, 2, 3], False),
        ([1], (1,), False),
        (1, True, False),
    ],
)
def test_same(one: Any, other: Any, wanted: bool) -> None:
    assert same(one, other) is wanted


def test_lists_may_stand_for_tuples_where_order_and_content_agree() -> None:
    one, other = {"a": [(1, [2.0]), (3,)]}, {"a": ([1, (2.0,)], [3])}
    assert not same(one, other)
    assert same(as_lists(one), as_lists(other))
    assert not same(as_lists((1, 2)), as_lists((2, 1)))
    assert not same(as_lists((1, 2)), as_lists((1, 2, 3)))


def test_same_never_raises() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert not same(Odd(), Odd())


def test_copies_are_independent_and_cast_reaches_inside() -> None:
    inputs = {"parts": [torch.ones(2), {"w": torch.ones(1)}], "rows": [[1, 2]], "n": 3}
    copied = copies(inputs)
    copied["parts"][1]["w"].zero_()
    copied["rows"][0].pop()
    assert inputs["parts"][1]["w"].item() == 1 and inputs["rows"] == [[1, 2]]
    doubles = tensors_in(cast(inputs, torch.float64))
    assert [tensor.dtype for tensor in doubles] == [torch.float64] * 2


def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([part.sum() for part in parts]).sum()


def cases(draw: Draw) -> Case:
    parts = [draw.normal(draw.dimension()) for _ in range(draw.dimension())]
    return Case("parts", {"parts": parts})


def edges() -> tuple[Case, ...]:
    one = torch.tensor([2.0, 3.0], dtype=torch.float64)
    return (Case("two parts", {"parts": [one, one + 1]}),)


def first_only(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0].sum()


NESTED = Exercise(
    id="small.parts.1",
    title="Parts",
    chapter=99,
    difficulty=1,
    minutes=5,
    goal="Sum all parts.",
    outputs=(Output("total", "()"),),
    cases=cases,
    edges=edges,
    oracle=lambda parts: sum(value for part in parts for value in part),
    reference=total,
    mutants=(Mutant("first only", first_only, "only the first part is summed"),),
    not_tested="speed.",
)


def test_an_exercise_on_a_list_of_tensors() -> None:
    assert verdict_on(Bench(NESTED, 1), total).passed
    result = verdict_on(Bench(NESTED, 1), first_only)
    assert result.mistakes == ("only the first part is summed",)
    assert "parts = [torch.tensor(" in result.message


def test_a_list_of_tensors_is_watched_for_changes() -> None:
    def vandal(parts: list[torch.Tensor]) -> torch.Tensor:
        result = total(parts)
        parts.pop()
        return result

    assert "changed its input `parts` in place" in verdict_on(Bench(NESTED, 1), vandal).message
