"""The decoupled objective against loops over Python floats, and what its weights are worth."""

import math
from collections.abc import Callable
from itertools import product

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from tensor_values import f64, gradient, same
from torch import Tensor

from nbkit.losses import importance_weights, policy_gradient_loss, ppo_clip_loss
from nbkit.off_policy import decoupled_ppo_loss, effective_sample_size

pytestmark = pytest.mark.chapter(35)
SEEDS = st.integers(0, 100_000)


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities under three policies (pi, proximal, behaviour); advantages; a mask."""
    g = torch.Generator().manual_seed(seed)
    logp, near, far = torch.randn(3, 4, 5, generator=g, dtype=torch.float64)
    mask = torch.rand(4, 5, generator=g) < 0.7
    advantages = torch.randn(4, 1, generator=g, dtype=torch.float64)
    return logp, logp + 0.3 * near, logp + 0.8 * far, advantages, mask


def by_hand(
    logp: float, proximal: float, behaviour: float, a: float, cap: float, low: float, high: float
) -> tuple[float, float]:
    """Loss of a token and its derivative in logp, by cases and without a minimum of tensors."""
    weight = math.exp(proximal - behaviour)
    weight = cap if weight > cap else weight
    ratio = math.exp(logp - proximal)
    if a >= 0:
        clipped = ratio > 1 + high
        value = (1 + high if clipped else ratio) * a
    else:
        clipped = ratio < 1 - low
        value = (1 - low if clipped else ratio) * a
    return -weight * value, 0.0 if clipped else -weight * ratio * a


@given(seed=SEEDS, cap=st.sampled_from([0.7, 1.5, 2.0]), high=st.sampled_from([0.1, 0.28]))
def test_value_and_gradient_are_those_of_loops(seed: int, cap: float, high: float) -> None:
    logp, proximal, behaviour, advantages, mask = drawn(seed)

    def ours(x: Tensor) -> Tensor:
        return decoupled_ppo_loss(
            x, proximal, behaviour, advantages, cap=cap, clip_low=0.2, clip_high=high, mask=mask
        )

    values, slopes = torch.zeros_like(logp), torch.zeros_like(logp)
    for i, t in product(range(4), range(5)):
        if mask[i, t]:
            token = (x[i, t].item() for x in (logp, proximal, behaviour))
            values[i, t], slopes[i, t] = by_hand(*token, advantages[i, 0].item(), cap, 0.2, high)
    same(ours(logp), values, atol=1e-12)
    same(gradient(ours, logp), slopes, atol=1e-12)


def test_by_numbers() -> None:
    """w = min(e^1, 2) = 2 and r = 1.5 > 1.2: the clip holds for a good token, not for a bad one."""
    logp, proximal, behaviour = f64([[1.5, 1.5, 0.5]]).log(), f64([[0.0] * 3]), f64([[-1.0] * 3])
    advantages = f64([[1.0, -1.0, 1.0]])

    def ours(x: Tensor) -> Tensor:
        return decoupled_ppo_loss(x, proximal, behaviour, advantages)

    same(ours(logp), [[-2.4, 3.0, -1.0]], atol=1e-12)
    same(gradient(ours, logp), [[0.0, 3.0, -1.0]], atol=1e-12)


@given(seed=SEEDS)
def test_it_is_ppo_where_the_proximal_policy_is_the_behaviour_policy(seed: int) -> None:
    logp, _, behaviour, advantages, mask = drawn(seed)
    ours = decoupled_ppo_loss(logp, behaviour, behaviour, advantages, mask=mask)
    assert torch.equal(ours, ppo_clip_loss(logp, behaviour, advantages, mask=mask))


@given(seed=SEEDS)
def test_before_the_first_step_it_is_the_weighted_policy_gradient(seed: int) -> None:
    """The trainer's own log-probabilities as old ones: the clip cannot act, the weight remains."""
    logp, _, behaviour, advantages, mask = drawn(seed)
    weights = importance_weights(logp, behaviour, mask)
    wanted = weights * gradient(lambda x: policy_gradient_loss(x, advantages, mask=mask), logp)
    for proximal in (logp, logp.clone()):
        found = gradient(
            lambda x, q=proximal: decoupled_ppo_loss(x, q, behaviour, advantages, mask=mask), logp
        )
        same(found, wanted, atol=1e-12)


@given(seed=SEEDS)
def test_own_log_probabilities_as_old_ones_are_no_ratio_at_all(seed: int) -> None:
    """In the first step: r = 1 everywhere, so nothing says who sampled."""
    logp, _, _, advantages, mask = drawn(seed)
    own = gradient(lambda x: ppo_clip_loss(x, logp, advantages, mask=mask), logp)
    none = gradient(lambda x: policy_gradient_loss(x, advantages, mask=mask), logp)
    same(own, none, atol=1e-12)
    assert none[mask].abs().max() > 1e-3 or not mask.any()


def exact_gradients(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Of one token with six choices, summed over all that the behaviour policy could have sampled:
    the gradient of the loss in the logits, and minus that of the expected reward under pi.
    """
    g = torch.Generator().manual_seed(3)
    logits, other = torch.randn(2, 6, generator=g, dtype=torch.float64)
    rewards = torch.randn(6, generator=g, dtype=torch.float64)
    behaviour = other.log_softmax(0)

    def sampled(x: Tensor) -> Tensor:
        logp = x.log_softmax(0)[:, None]
        return behaviour.exp() * loss(logp, behaviour[:, None], rewards[:, None])[:, 0]

    return gradient(sampled, logits), -gradient(lambda x: x.softmax(0) * rewards, logits)


def test_without_a_cap_the_gradient_is_that_of_the_expected_reward() -> None:
    found, wanted = exact_gradients(
        lambda logp, old, a: decoupled_ppo_loss(logp, logp.detach(), old, a, cap=None)
    )
    same(found, wanted, atol=1e-12)


def test_clip_cap_and_own_log_probabilities_all_bias_it() -> None:
    for loss in (
        lambda logp, old, a: ppo_clip_loss(logp, old, a),
        lambda logp, old, a: decoupled_ppo_loss(logp, logp.detach(), old, a, cap=1.0),
        lambda logp, old, a: ppo_clip_loss(logp, logp.detach(), a),
    ):
        found, wanted = exact_gradients(loss)
        assert (found - wanted).abs().max() > 0.02


def test_gradcheck_and_no_gradient_to_the_other_policies() -> None:
    logp, proximal, behaviour, advantages, mask = drawn(11)
    leaves = [x.requires_grad_() for x in (logp, proximal, behaviour, advantages)]
    decoupled_ppo_loss(*leaves, mask=mask).sum().backward()
    assert logp.grad is not None and logp.grad.abs().max() > 0
    assert proximal.grad is behaviour.grad is advantages.grad is None
    apart = (logp - proximal).detach().exp()
    assert ((apart - 0.8).abs() > 1e-4).all() and ((apart - 1.2).abs() > 1e-4).all()  # no kink
    assert torch.autograd.gradcheck(
        lambda x: decoupled_ppo_loss(x, *leaves[1:], mask=mask), (logp,)
    )


@pytest.mark.parametrize(
    ("weights", "share"),
    [([2.0, 2.0, 2.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([1.0, 3.0], 0.8), ([5.0], 1.0)],
)
def test_effective_sample_size_by_numbers(weights: list[float], share: float) -> None:
    assert effective_sample_size(f64(weights)) == pytest.approx(share, abs=1e-12)


@given(seed=SEEDS, power=st.sampled_from([-160, -20, 0, 20, 150]))
def test_effective_sample_size_counts_the_mask_alone_and_no_scale(seed: int, power: int) -> None:
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(3, 5, generator=g, dtype=torch.float64) + 0.01
    mask = torch.rand(3, 5, generator=g) < 0.6
    mask[0, 0] = True
    kept = [
        w for w, m in zip(weights.flatten().tolist(), mask.flatten().tolist(), strict=True) if m
    ]
    wanted = math.fsum(kept) ** 2 / (len(kept) * math.fsum(w * w for w in kept))
    spoilt = (weights * 10.0**power).masked_fill(~mask, -math.inf)
    assert effective_sample_size(spoilt, mask) == pytest.approx(wanted, rel=1e-9)


def test_effective_sample_size_is_what_a_mean_keeps() -> None:
    """The variance of sum(w x) / sum(w) for independent x of variance 1 is 1 / (n share)."""
    weights = torch.rand(50, generator=torch.Generator().manual_seed(1), dtype=torch.float64) ** 3
    variance = (weights / weights.sum()).square().sum().item()
    assert 1 / variance == pytest.approx(50 * effective_sample_size(weights), rel=1e-12)


def test_without_a_weight_there_is_no_sample_size() -> None:
    for weights, mask in ((f64([0.0, 0.0]), None), (f64([1.0]), torch.tensor([False]))):
        assert math.isnan(effective_sample_size(weights, mask))
