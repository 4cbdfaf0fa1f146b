"""The package's own functions pass the checks of chapter 12's exercises.

Two implementations that never saw each other, and an oracle that saw neither.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from nbkit import advantages as package_advantages
from nbkit.control.actor_critic import DiagonalGaussian
from nbkit.losses import ppo_clip_loss
from nbkit.minibatches import minibatches

pytestmark = pytest.mark.chapter(12)
Batch = dict[str, Tensor]


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    return package_advantages.gae(
        rewards, values, next_values, terminated, done, gamma=gamma, lam=lam
    )


def clip_loss(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    return ppo_clip_loss(logprobs, old, advantages, clip_low=clip, clip_high=clip).mean()


def gaussian(actions: Tensor, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    head = DiagonalGaussian(mean, log_std)
    return head.log_prob(actions), head.entropy()[0]


def normalise(advantages: Tensor, valid: Tensor) -> Tensor:
    return package_advantages.whiten(advantages, valid)


PACKAGE: dict[str, Callable[..., Any]] = {
    "ppo.gae.1": gae,
    "ppo.clip.1": clip_loss,
    "ppo.gaussian.1": gaussian,
    "ppo.normalise.1": normalise,
}


@pytest.mark.parametrize("exercise_id", PACKAGE)
def test_package_passes(exercise_id: str) -> None:
    for seed in (2, 3, 4):
        result = verdict_on(bench_for(exercise_id, seed), PACKAGE[exercise_id])
        assert result.passed, result.message


def test_parts_of_nearly_equal_length_fail_in_their_sizes_alone() -> None:
    """The package balances its minibatches on purpose; every other demand of the exercise holds."""

    def package(batch: Batch, size: int, epochs: int, generator: torch.Generator) -> list[Batch]:
        return [
            {name: field[rows] for name, field in batch.items()}
            for _ in range(epochs)
            for rows in minibatches(len(batch["actions"]), size, generator)
        ]

    for finding in bench_for("ppo.minibatch.1", 2).judge(package):
        assert finding.seen.leaves is not None
        assert list(finding.seen.leaves[1:]) == list(finding.run.answers[1:])
