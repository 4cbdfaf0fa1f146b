"""Gradients that gradcheck cannot judge: where a stop-gradient belongs to the definition."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from tensor_values import f64, gradient, ints, same
from torch import Tensor

from nbkit.losses import (
    cispo_loss,
    importance_weights,
    policy_gradient_loss,
    ppo_clip_loss,
    preference_loss,
    value_loss,
)
from nbkit.masks import aggregate

SEEDS = st.integers(0, 100_000)


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    logp, noise = torch.randn(2, 3, 5, generator=g, dtype=torch.float64)
    mask = torch.rand(3, 5, generator=g) < 0.8
    return logp, logp - 0.3 * noise, torch.randn(3, 1, generator=g, dtype=torch.float64), mask


@given(seed=SEEDS)
def test_gspo_gradient_is_that_of_the_sequence_ratio(seed: int) -> None:
    """Against GSPO's own form: differentiate s(theta) = exp(mean log-ratio) itself, no trick."""
    logp, old, advantages, mask = drawn(seed)
    mask[:, 0] = True

    def plain(x: Tensor) -> Tensor:
        lengths = mask.sum(1, keepdim=True)
        s = (torch.where(mask, x - old, 0.0).sum(1, keepdim=True) / lengths).exp()
        return -torch.minimum(s * advantages, s.clamp(0.8, 1.2) * advantages).mean()

    def ours(x: Tensor) -> Tensor:
        per_token = ppo_clip_loss(x, old, advantages, mask=mask, ratio="sequence")
        return aggregate(per_token, mask, "seq-mean-token-mean")

    same(ours(logp), plain(logp), atol=1e-12)
    same(gradient(ours, logp), gradient(plain, logp), atol=1e-12)


@given(seed=SEEDS)
def test_cispo_gradient_is_the_clipped_weight_times_the_advantage(seed: int) -> None:
    logp, old, advantages, mask = drawn(seed)
    weight = (logp - old).exp().clamp(0.8, 1.28)

    def ours(x: Tensor) -> Tensor:
        return cispo_loss(x, old, advantages, mask=mask, clip_low=0.2, clip_high=0.28)

    expected = torch.where(mask, -weight * advantages, 0.0)
    same(gradient(ours, logp), expected, atol=1e-12)
    same(ours(logp), expected * logp, atol=1e-12)


@given(seed=SEEDS)
def test_losses_agree_where_the_policy_has_not_moved(seed: int) -> None:
    """On policy, all of them are the policy gradient."""
    logp, _, advantages, mask = drawn(seed)
    wanted = gradient(lambda x: policy_gradient_loss(x, advantages, mask=mask), logp)
    for loss in (
        lambda x: ppo_clip_loss(x, logp, advantages, mask=mask),
        lambda x: ppo_clip_loss(x, logp, advantages, mask=mask, dual_clip=3.0),
        lambda x: ppo_clip_loss(x, logp, advantages, mask=mask, ratio="sequence"),
        lambda x: cispo_loss(x, logp, advantages, mask=mask, clip_low=0.2, clip_high=0.2),
    ):
        same(gradient(loss, logp), wanted, atol=1e-12)


@given(seed=SEEDS)
def test_importance_weights_without_bounds_reweigh_exactly(seed: int) -> None:
    """E over the sampler of w f = E over the trainer of f, on a vocabulary summed out."""
    g = torch.Generator().manual_seed(seed)
    train, rollout = torch.randn(2, 1, 6, generator=g, dtype=torch.float64).log_softmax(-1)
    f = torch.randn(1, 6, generator=g, dtype=torch.float64)
    weights = importance_weights(train, rollout, None, high=None)
    same((rollout.exp() * weights * f).sum(), (train.exp() * f).sum(), atol=1e-12)


def test_only_the_policy_gets_a_gradient() -> None:
    logp, old, advantages, _ = drawn(0)
    old.requires_grad_()
    advantages.requires_grad_()
    leaf = logp.requires_grad_()
    for loss in (
        policy_gradient_loss(leaf, advantages),
        ppo_clip_loss(leaf, old, advantages),
        cispo_loss(leaf, old, advantages, clip_low=0.2, clip_high=0.2),
        value_loss(leaf, old, old_values=old, clip=0.2),
    ):
        loss.sum().backward()
    assert leaf.grad is not None
    assert old.grad is None
    assert advantages.grad is None


def test_dual_clip_bounds_the_loss_and_stops_the_gradient() -> None:
    logp, zero, minus = f64([[4.0]]).log(), f64([[0.0]]), f64([[-1.0]])
    same(gradient(lambda x: ppo_clip_loss(x, zero, minus, dual_clip=3.0), logp), [[0.0]])
    same(gradient(lambda x: ppo_clip_loss(x, zero, minus), logp), [[4.0]])


@pytest.mark.parametrize("advantage", [0.0, 1.0, -1.0])
def test_without_a_clamp_a_hopeless_ratio_gives_no_nan(advantage: float) -> None:
    """inf * 0 waits at A = 0 and in the backward pass of the clipped branch."""
    logp, old = torch.tensor([[-1000.0, -1.0]]), torch.tensor([[-1.0, -2000.0]])
    column = torch.tensor([[advantage]])

    def loss(x: Tensor) -> Tensor:
        return ppo_clip_loss(x, old, column, log_ratio_clamp=None)

    assert not loss(logp).isnan().any()
    assert not gradient(loss, logp).isnan().any()


@given(margin=st.floats(-3, 3), smoothing=st.sampled_from([0.0, 0.1, 0.3]))
def test_robust_preference_loss_is_unbiased_under_flipped_labels(
    margin: float, smoothing: float
) -> None:
    """Its mean over labels flipped with rate e is the loss of the true labels."""
    zero, chosen = f64([0.0]), f64([margin])

    def loss(c: Tensor, r: Tensor, kind: str, e: float) -> Tensor:
        return preference_loss(c, r, zero, zero, beta=0.7, kind=kind, label_smoothing=e)

    kept, flipped = (loss(*pair, "robust", smoothing) for pair in ((chosen, zero), (zero, chosen)))
    mean = (1 - smoothing) * kept + smoothing * flipped
    same(mean, loss(chosen, zero, "sigmoid", 0.0), atol=1e-12)


def test_an_advantage_a_row_is_the_same_advantage_on_each_token() -> None:
    logp, old, advantages, mask = drawn(3)
    wide = advantages.expand(3, 5)
    for call in (
        lambda a: policy_gradient_loss(logp, a, mask=mask),
        lambda a: ppo_clip_loss(logp, old, a, mask=mask),
        lambda a: cispo_loss(logp, old, a, mask=mask, clip_low=0.2, clip_high=0.2),
    ):
        assert torch.equal(call(advantages), call(wide))


def test_flat_batches_of_actions_need_no_time_axis() -> None:
    """(N,) beside (N,) is the shape of environments: no broadcasting is involved."""
    logp, old, advantages = torch.randn(3, 7).double()
    flat = ppo_clip_loss(logp, old, advantages)
    column = ppo_clip_loss(logp[:, None], old[:, None], advantages[:, None])
    same(flat, column[:, 0])
    assert policy_gradient_loss(logp, advantages, mask=ints([1] * 7)).shape == (7,)
