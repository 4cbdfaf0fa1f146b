"""The package's own functions pass the checks of chapter 22's exercises.

Two implementations that never saw each other, and an oracle that saw neither.
"""

import pytest
import torch

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from nbkit.losses import preference_loss
from nbkit.trainers.dpo import DPOConfig
from nbkit.trainers.dpo.batch import PairScores, sequence_logprobs
from nbkit.trainers.dpo.loss import dpo_loss, implicit_rewards, pair_metrics

pytestmark = [pytest.mark.slow, pytest.mark.chapter(22)]


def scores(chosen, rejected):
    ones = torch.ones_like(chosen, dtype=torch.long)
    return PairScores(chosen, rejected, ones, ones)


def loss(chosen, rejected, ref_chosen, ref_rejected, beta):
    return dpo_loss(
        scores(chosen, rejected), scores(ref_chosen, ref_rejected), DPOConfig(beta=beta)
    )


def logprob(logits, ids, mask):
    return sequence_logprobs(logits, ids, mask)[0]


def rewards(chosen, rejected, ref_chosen, ref_rejected, beta):
    policy, reference = scores(chosen, rejected), scores(ref_chosen, ref_rejected)
    accuracy = pair_metrics(policy, reference, beta)["accuracy"]
    return *implicit_rewards(policy, reference, beta), torch.tensor(accuracy).to(chosen)


def smoothed(margin, beta, flipped):
    zero = torch.zeros_like(margin)
    return tuple(
        preference_loss(margin, zero, zero, zero, beta=beta, kind=kind, label_smoothing=flipped)
        for kind in ("sigmoid", "robust")
    )


def ipo(chosen, rejected, chosen_tokens, rejected_tokens, beta):
    zero = torch.zeros_like(chosen)
    return tuple(
        preference_loss(
            chosen, rejected, zero, zero, beta=beta, kind=kind,
            chosen_tokens=chosen_tokens, rejected_tokens=rejected_tokens,
        )
        for kind in ("ipo", "ipo-average")
    )  # fmt: skip


PACKAGE = {
    "dpo.logprob.1": logprob,
    "dpo.loss.1": loss,
    "dpo.accuracy.1": rewards,
    "dpo.smoothing.1": smoothed,
    "dpo.ipo.1": ipo,
}


@pytest.mark.parametrize("exercise_id", PACKAGE)
def test_package_passes(exercise_id):
    for seed in (2, 3):
        result = verdict_on(bench_for(exercise_id, seed), PACKAGE[exercise_id])
        assert result.passed, result.message
