"""The exercises of chapter 34 agree with the package, with Adam, and with DeepSpeed."""

import itertools

import pytest
import torch
from torch import Tensor

from nbkit.exercises.chapter_34.batch import NAMES, batch_sizes
from nbkit.exercises.chapter_34.memory import zero_memory
from nbkit.exercises.check import verdict_on
from nbkit.exercises.proof import bench_for
from nbkit.parallel.memory import zero_bytes
from nbkit.parallel.shards import cut

pytestmark = pytest.mark.chapter(34)


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
    except AssertionError:
        return None
    return tuple(getattr(config, name) for name in NAMES)


@pytest.mark.slow
def test_batches_are_completed_as_deepspeed_does():
    compared = 0
    for ranks, *values in itertools.product((1, 2, 3), *[(None, 1, 2, 3, 6, 12)] * 3):
        given = {n: v for n, v in zip(NAMES, values, strict=True) if v is not None}
        assert batch_sizes(given, ranks) == deepspeed_sizes(given, ranks), (given, ranks)
        compared += 1
    assert compared == 3 * 6**3
