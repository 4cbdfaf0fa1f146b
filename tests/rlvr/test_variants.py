"""Each named variant against loops over Python floats, and the refusal of what does not fit."""

import pytest
import torch

from nbkit.trainers.grpo.batch import advantages
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.update import grpo_loss
from nbkit.trainers.grpo.variants import VARIANTS, variant
from tests.rlvr.oracle import advantages as their_advantages
from tests.rlvr.oracle import loss as their_loss

pytestmark = pytest.mark.chapter(24)
LENGTHS = [5, 1, 3, 6, 2, 6, 4, 4]
REWARDS = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.5]


def tables():
    g = torch.Generator().manual_seed(0)
    logp, noise, other = (torch.randn(8, 6, generator=g, dtype=torch.float64) for _ in range(3))
    logp = -logp.abs() - 0.1
    return logp, logp + 0.4 * noise, logp + 0.5 * other


@pytest.mark.parametrize("name", VARIANTS)
def test_advantages_and_loss_of_a_variant(name):
    settings = variant(name, group_size=4, max_new_tokens=10)
    logp, old, ref = tables()
    mask = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
    rewards = torch.tensor(REWARDS, dtype=torch.float64)
    in_reward = settings.kl_coefficient > 0 and settings.kl_place == "reward"
    k1 = (old - ref).masked_fill(~mask, torch.nan)
    ours = advantages(rewards, mask, settings, kl=k1 if in_reward else None)
    paid = [
        [settings.kl_coefficient * x for x in row[:n]]
        for row, n in zip((old - ref).tolist(), LENGTHS, strict=True)
    ]
    theirs = their_advantages(name, REWARDS, LENGTHS, 4, paid)
    flat = torch.tensor([x for row in theirs for x in row], dtype=torch.float64)
    torch.testing.assert_close(ours[mask], flat, atol=1e-10, rtol=0)
    assert (ours[~mask] == 0).all()

    rubbish = logp.masked_fill(~mask, 1e30).requires_grad_()
    value = grpo_loss(rubbish, old, ours, mask, settings, ref_logp=ref)
    expected = their_loss(
        name, logp.tolist(), old.tolist(), ref.tolist(), theirs, LENGTHS, 10,
        settings.kl_coefficient,
    )  # fmt: skip
    assert value.item() == pytest.approx(expected, abs=1e-10)
    (gradient,) = torch.autograd.grad(value, rubbish)
    assert (gradient[~mask] == 0).all() and gradient[mask].isfinite().all()
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("name", VARIANTS)
def test_on_policy_gradient_is_the_policy_gradient(name):
    """At the first step every objective has the gradient -A / denominator."""
    settings = variant(name, group_size=4, max_new_tokens=10, kl_coefficient=0.0)
    logp, _, _ = tables()
    mask = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
    adv = advantages(torch.tensor(REWARDS, dtype=torch.float64), mask, settings)
    logp.requires_grad_()
    (gradient,) = torch.autograd.grad(grpo_loss(logp, logp.detach(), adv, mask, settings), logp)
    tokens = {
        "token-mean": torch.full((8, 1), sum(LENGTHS)),
        "seq-mean-token-mean": 8 * torch.tensor(LENGTHS)[:, None],
        "seq-mean-token-sum": torch.full((8, 1), 8),
        "seq-mean-token-sum-norm": torch.full((8, 1), 80),
    }[settings.aggregation]
    expected = -adv / tokens
    torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=0)


def test_what_the_names_change():
    plain = GRPOConfig()
    for name, changes in VARIANTS.items():
        settings = variant(name)
        assert settings != plain, name
        for field in changes:
            assert getattr(settings, field) != getattr(plain, field) or field.startswith("kl"), (
                name,
                field,
            )
    assert variant("dapo", max_new_tokens=100).overlong_buffer == 20
    assert variant("dapo", max_new_tokens=100, overlong_buffer=7).overlong_buffer == 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group_size": 1}, "group_size is 1"),
        ({"group_size": 1, "scale": None}, "group_size is 1"),
        ({"group_size": 1, "advantage": "return", "dynamic_sampling": True}, "group_size is 1"),
        ({"clip_low": None}, "clip_low"),
        ({"objective": "policy-gradient", "epochs": 2}, "no ratio"),
        ({"objective": "cispo", "ratio": "sequence"}, "ratio='sequence'"),
        ({"kl_ratio": True}, "kl_ratio"),
        ({"old_logprobs": "behaviour"}, "old_logprobs must be one of 'sampler', 'trainer'"),
        ({"old_logprobs": "sampler", "importance_cap": 2.0}, "leaves nothing to weight"),
        ({"temperature": 0.0}, "temperature"),
        ({"aggregation": "mean"}, "aggregation"),
        ({"overlong_buffer": 49}, "overlong_buffer"),
        ({"learning_rate": float("nan")}, "learning_rate"),
    ],
)
def test_settings_that_do_not_fit(changes, words):
    with pytest.raises(ValueError, match=words):
        GRPOConfig(**changes)


def test_a_group_of_one_is_fine_without_groups():
    assert GRPOConfig(group_size=1, advantage="return", whiten=True).group_size == 1


def test_an_unknown_variant():
    with pytest.raises(ValueError, match="name must be one of"):
        variant("grpo2")


def test_a_kl_in_the_loss_needs_the_reference():
    logp, old, _ = tables()
    mask = torch.ones(8, 6, dtype=torch.bool)
    with pytest.raises(ValueError, match="ref_logp is missing"):
        grpo_loss(logp, old, logp, mask, variant("grpo"))


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
@pytest.mark.parametrize("by_ratio", [False, True])
def test_kl_of_every_kind_in_the_loss(kind, by_ratio):
    settings = variant(
        "grpo", kl_kind=kind, kl_coefficient=0.3, kl_ratio=by_ratio, clip_high=1e9, clip_low=1.0
    )
    logp, old, ref = tables()
    logp.requires_grad_()
    mask = torch.ones(8, 6, dtype=torch.bool)
    value = grpo_loss(
        logp, old, torch.zeros(8, 1, dtype=torch.float64), mask, settings, ref_logp=ref
    )
    d = logp - ref
    kl = {"k1": d, "k2": d * d / 2, "k3": (-d).exp() - 1 + d}[kind]
    expected = 0.3 * (kl * (logp - old).exp() if by_ratio else kl).mean()
    assert value.item() == pytest.approx(expected.item(), abs=1e-10)
    ours, theirs = (torch.autograd.grad(x, logp)[0] for x in (value, expected))
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)
