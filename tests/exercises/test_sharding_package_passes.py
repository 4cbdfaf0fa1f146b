"""The package's sharding by hand and the exercises of chapter 33 agree; ranks are simulated."""

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from bookkit.exercises.registry import get_exercise
from nbkit.parallel.by_hand.handover import sent_elements
from nbkit.parallel.by_hand.shards import cut
from nbkit.parallel.by_hand.tensor_parallel import piece

pytestmark = pytest.mark.chapter(33)
plan = get_exercise("shard.hand_over.1").reference
wrap = get_exercise("shard.wrap.1").reference


def package_cut(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    unit = torch.cat([weight.flatten(), bias])
    return torch.stack([cut(unit, rank, ranks) for rank in range(ranks)])


def package_mlp(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> tuple[Tensor, Tensor]:
    """What ``ColumnParallelLinear`` and ``RowParallelLinear`` compute on each rank."""
    parts = []
    for rank in range(ranks):
        middle = x @ piece(up, 0, rank, ranks).T + piece(up_bias, 0, rank, ranks)
        parts.append(middle.tanh() @ piece(down, 1, rank, ranks).T)
    return torch.stack(parts), torch.stack(parts).sum(0) + down_bias


@pytest.mark.parametrize(
    ("exercise_id", "function"),
    [("shard.cut.1", package_cut), ("shard.tensor_parallel.1", package_mlp)],
)
def test_package_passes(exercise_id, function):
    for seed in (2, 3):
        result = verdict_on(bench_for(exercise_id, seed), function)
        assert result.passed, result.message


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_plan_sends_what_the_package_counts(ranks):
    sent = sum((d - c) * (f - e) for _, _, c, d, e, f in plan(8, 12, ranks, 1))
    assert sent == ranks * sent_elements(8, 12, ranks, whole=False)


def lists_and_tuples(change, function):
    """The same answers, in the other kind of sequence."""

    def turned(value):
        if isinstance(value, dict):
            return {key: turned(item) for key, item in value.items()}
        return change(map(turned, value)) if isinstance(value, list | tuple) else value

    return lambda *inputs: turned(function(*inputs))


@pytest.mark.parametrize("change", [list, tuple])
@pytest.mark.parametrize(
    ("exercise_id", "function"), [("shard.hand_over.1", plan), ("shard.wrap.1", wrap)]
)
def test_lists_and_tuples_are_equally_good(exercise_id, function, change):
    result = verdict_on(bench_for(exercise_id, 2), lists_and_tuples(change, function))
    assert result.passed, result.message


def test_another_order_is_not_excused_as_another_type():
    result = verdict_on(bench_for("shard.hand_over.1", 2), lambda *shape: tuple(plan(*shape)[::-1]))
    assert not result.passed
    assert "they are listed target by target" in result.message
