"""The exercises of chapter 34 agree with the package, with Adam, and with DeepSpeed."""

import itertools

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from bookkit.exercises.registry import get_exercise
from nbkit.memory.zero import zero_bytes
from nbkit.parallel.by_hand.shards import cut

pytestmark = pytest.mark.chapter(34)
batch_sizes = get_exercise("zero.batch.1").reference
zero_memory = get_exercise("zero.memory.1").reference
NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_bytes_are_those_of_the_package(stage):
    assert zero_memory(64, 4, stage, "nothing") == (zero_bytes(64, 4, stage).total, 0)


def torch_adam(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The package's shards, stepped by torch's own Adam."""
    ranks = len(gradients)
    moved, m, v = [], [], []
    for rank in range(ranks):
        shard = torch.nn.Parameter(cut(weights, rank, ranks))
        shard.grad = cut(gradients.mean(0), rank, ranks)
        adam = torch.optim.Adam([shard], lr=rate, betas=(0.9, 0.95))
        adam.state[shard] = {
            "step": torch.tensor(float(count - 1)),
            "exp_avg": means[rank].clone(),
            "exp_avg_sq": squares[rank].clone(),
        }
        adam.step()
        moved.append(shard.detach())
        m.append(adam.state[shard]["exp_avg"])
        v.append(adam.state[shard]["exp_avg_sq"])
    return torch.cat(moved)[: weights.numel()], torch.stack(m), torch.stack(v)


def test_adam_on_shards_passes():
    for seed in (2, 3):
        result = verdict_on(bench_for("zero.step.1", seed), torch_adam)
        assert result.passed, result.message


def deepspeed_sizes(given, ranks):
    """What DeepSpeed's own configuration makes of the three numbers."""
    from deepspeed.runtime.config import DeepSpeedConfig

    config = DeepSpeedConfig.__new__(DeepSpeedConfig)
    config.world_size = ranks
    for name in NAMES:
        setattr(config, name, given.get(name))
    try:
        config._configure_train_batch_size()
    except (AssertionError, ZeroDivisionError):  # the latter for a number of 0
        return None
    return tuple(getattr(config, name) for name in NAMES)


@pytest.mark.slow
def test_batches_are_completed_as_deepspeed_does():
    compared = 0
    for ranks, *values in itertools.product((1, 2, 3), *[(None, 0, 1, 2, 3, 6, 12)] * 3):
        given = {n: v for n, v in zip(NAMES, values, strict=True) if v is not None}
        assert batch_sizes(given, ranks) == deepspeed_sizes(given, ranks), (given, ranks)
        compared += 1
    assert compared == 3 * 7**3


def zero_is_missing(given, ranks):
    """Right, but 0 is taken for a number that was not given."""
    return batch_sizes({name: value for name, value in given.items() if value}, ranks)


def nothing_below_one_is_refused(given, ranks):
    """Right, but only the product is tested, and the batch."""
    train, micro, steps = (given.get(name) for name in NAMES)
    if train and micro and steps and train == micro * steps * ranks:
        return train, micro, steps
    return batch_sizes(given, ranks)


def chosen(shard_of, host_of):
    """The exercise's solution with its own shard and its own bytes on the host."""

    def choose(parameters, largest_unit, activations, ranks, device, host):
        shard = shard_of(parameters, ranks)
        needs = [
            ("ddp", 16 * parameters, 0),
            ("zero1", 4 * parameters + 12 * shard, 0),
            ("zero2", 2 * parameters + 14 * shard, 0),
            ("zero3", 16 * shard + 2 * largest_unit, 0),
            ("zero3-offload", 4 * shard + 2 * largest_unit, host_of(parameters, ranks, shard)),
        ]
        for word, here, there in needs:
            if here + activations <= device and there <= host:
                return word
        return None

    return choose


def up(parameters, ranks):
    return -(-parameters // ranks)


def padded(parameters, ranks, shard):
    return ranks * 12 * shard


MISTAKES = {
    "zero": ("zero.batch.1", zero_is_missing, "0 is filled in as if it were missing"),
    "signs": ("zero.batch.1", nothing_below_one_is_refused, "are never tested"),
    "down": ("zero.choose.1", chosen(lambda n, p: n // p, padded), "shard is rounded down"),
    "not rounded": ("zero.choose.1", chosen(lambda n, p: n / p, padded), "shard is not rounded"),
    "12 N": ("zero.choose.1", chosen(up, lambda n, p, s: 12 * n), "host is asked for 12 N"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_counting_are_named(mistake):
    exercise, function, words = MISTAKES[mistake]
    for seed in (2, 3):
        result = verdict_on(bench_for(exercise, seed), function)
        assert not result.passed
        assert words in result.message, result.message


def test_what_the_mistakes_are_made_of_is_right():
    assert verdict_on(bench_for("zero.choose.1", 2), chosen(up, padded)).passed


def test_lists_stand_for_tuples():
    def listed(given, ranks):
        found = batch_sizes(given, ranks)
        return found and list(found)

    result = verdict_on(bench_for("zero.batch.1", 2), listed)
    assert result.passed, result.message


def test_none_where_it_may_be_an_answer_is_no_missing_return():
    right = chosen(up, padded)

    def gives_up(*inputs):
        word = right(*inputs)
        return None if word == "zero2" else word

    result = verdict_on(bench_for("zero.choose.1", 2), gives_up)
    assert not result.passed
    assert "`word` differs" in result.message
    assert "is the `return` missing" not in result.message
