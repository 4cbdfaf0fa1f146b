"""Intervals of shares and pass@k, each against a count of all cases."""

import itertools
import math

import pytest

from studies._shares import solved_by, wilson


@pytest.mark.parametrize(("right", "count"), [(0, 10), (3, 10), (60, 1319), (10, 10)])
def test_the_ends_of_an_interval_are_where_the_normal_test_turns(right: int, count: int) -> None:
    """At an end p the share lies 1.96 standard deviations of a share of p away."""
    for end in wilson(right, count):
        deviation = math.sqrt(end * (1 - end) / count)
        assert abs(right / count - end) == pytest.approx(1.96 * deviation, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_solved_by_is_the_share_of_all_choices_that_hold_a_right_one(k: int) -> None:
    answers = [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    chosen = [any(some) for row in answers for some in itertools.combinations(row, k)]
    assert solved_by(k, [sum(row) for row in answers], 4) == pytest.approx(
        sum(chosen) / len(chosen), abs=1e-12
    )


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="right"):
        wilson(11, 10)
    with pytest.raises(ValueError, match="k"):
        solved_by(5, [1], 4)
