"""The settings in which libraries differ, each with the number that it gives.

Which library uses which setting is run against the libraries themselves in benchmarks/peers; here
stands that our arguments mean what they say.
"""

import pytest
import torch
from tensor_values import f64, gradient, ints, same

from nbkit.advantages import (
    batch_moments,
    discounted_returns,
    group_advantages,
    merge_moments,
    token_gae,
    whiten,
)
from nbkit.kl import kl_estimate
from nbkit.logprobs import entropy, token_logprobs
from nbkit.losses import (
    cispo_loss,
    importance_weights,
    policy_gradient_loss,
    ppo_clip_loss,
    preference_loss,
    reward_model_loss,
    value_loss,
)
from nbkit.masks import aggregate, masked_mean

# 1. Returns and GAE over tokens


def test_token_gae_carries_across_masked_tokens() -> None:
    rewards, values = f64([[0.1, 0, 1]]), f64([[0.4, 7, 0.2]])
    advantages, returns = token_gae(rewards, values, ints([[1, 0, 1]]), gamma=0.95, lam=0.9)
    same(advantages, [[0.574, 0, 0.8]])
    same(returns, [[0.974, 0, 1.0]])
    deleted, _ = token_gae(f64([[0.1, 1]]), f64([[0.4, 0.2]]), None, gamma=0.95, lam=0.9)
    same(deleted, [[0.574, 0.8]])
    plain, _ = token_gae(rewards, values, None, gamma=0.95, lam=0.9)
    same(plain[0, 0], 1.11227)  # TRL, SkyRL, torchtune
    zeroed, _ = token_gae(rewards, f64([[0.4, 0, 0.2]]), None, gamma=0.95, lam=0.9)
    same(zeroed[0, 0], 0.44727)  # OpenRLHF


def test_returns_skip_masked_steps_and_do_not_reset() -> None:
    rewards, mask = f64([[1, 5, 1, 1]]), ints([[1, 0, 1, 1]])
    same(discounted_returns(rewards, 0.5, mask=mask), [[1.75, 0, 1.5, 1.0]])
    same(discounted_returns(rewards, 0.5), [[3.875, 5.75, 1.5, 1.0]])


# 2. Whitening

WHITENED = f64([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ddof": 1}, [-1, 0, 1, 0]),
        ({"ddof": 0}, [-1.2247448714, 0, 1.2247448714, 0]),
        ({"ddof": 1, "center": False}, [1, 2, 3, 0]),
    ],
)
def test_whiten_variance_and_mean(options: dict, expected: list[float]) -> None:
    for place in ("std", "var", "clamp-std", "clamp-var"):
        mask = ints([1, 1, 1, 0])
        same(whiten(WHITENED, mask, eps_place=place, **options), expected, atol=2e-8)


@pytest.mark.parametrize(
    ("place", "divisor"), [("std", 1.5), ("var", 1.25**0.5), ("clamp-std", 1), ("clamp-var", 1)]
)
def test_whiten_places_of_eps(place: str, divisor: float) -> None:
    eps = 0.5 if place == "std" else 0.25
    same(whiten(f64([1, 2, 3]), eps=eps, eps_place=place), f64([-1, 0, 1]) / divisor)
    same(whiten(f64([1, 2, 3]), eps=4.0, eps_place="clamp-std"), [-0.25, 0, 0.25])
    same(whiten(f64([1, 2, 3]), eps=4.0, eps_place="clamp-var"), [-0.5, 0, 0.5])


def test_whiten_weighs_tokens() -> None:
    x, mask = f64([[0.5, 0, 0], [-0.5, -0.5, -0.5]]), ints([[1, 0, 0], [1, 1, 1]])
    population = whiten(x, mask, ddof=0, eps=0.0)
    same(population[[0, 1], [0, 0]], [1.7320508, -0.5773503], atol=1e-7)
    same(whiten(x, mask, eps=0.0)[[0, 1], [0, 0]], [1.5, -0.5])


def test_whiten_with_the_moments_of_all_ranks_is_whitening_the_whole() -> None:
    whole = torch.randn(3, 7, dtype=torch.float64)
    mask = torch.rand(3, 7) < 0.7
    moments = merge_moments([batch_moments(x, m) for x, m in zip(whole, mask, strict=True)])
    assert moments[0] == mask.sum()
    for ddof in (0, 1):
        parts = [whiten(x, m, ddof=ddof, moments=moments) for x, m in zip(whole, mask, strict=True)]
        same(torch.stack(parts), whiten(whole, mask, ddof=ddof))


def test_moments_of_equal_values_whiten_to_zero() -> None:
    x = torch.full((7,), 0.1)
    naive = (7, x.sum() / 7, (x - x.sum() / 7).square().mean())
    for moments in (naive, batch_moments(x), merge_moments([batch_moments(x)] * 3)):
        assert torch.equal(whiten(x, moments=moments), torch.zeros(7))


# 3. PPO


@pytest.mark.parametrize(
    ("advantage", "dual_clip", "expected"),
    [
        (1.0, None, [-0.5, -0.9, -1.1, -1.2, -1.2]),
        (-1.0, None, [0.8, 0.9, 1.1, 1.5, 4.0]),
        (1.0, 3.0, [-0.5, -0.9, -1.1, -1.2, -1.2]),
        (-1.0, 3.0, [0.8, 0.9, 1.1, 1.5, 3.0]),
    ],
)
def test_ppo_clip(advantage: float, dual_clip: float | None, expected: list[float]) -> None:
    ratio = f64([[0.5, 0.9, 1.1, 1.5, 4.0]])
    old = torch.zeros_like(ratio)
    loss = ppo_clip_loss(ratio.log(), old, f64([[advantage]]), dual_clip=dual_clip)
    same(loss, [expected])


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"), [(1.5, 1, 0), (0.5, -1, 0), (1.5, -1, 1.5), (0.5, 1, -0.5)]
)
def test_ppo_clip_slope(ratio: float, advantage: float, slope: float) -> None:
    logp, zero = f64([[ratio]]).log(), f64([[0.0]])
    same(gradient(lambda x: ppo_clip_loss(x, zero, f64([[advantage]])), logp), [[slope]])


def test_ppo_clip_bounds_are_separate() -> None:
    ratio, one = f64([[0.5, 2.0]]), f64([[1.0]])
    zero = torch.zeros_like(ratio)
    same(ppo_clip_loss(ratio.log(), zero, one, clip_low=0.1, clip_high=0.28), [[-0.5, -1.28]])
    same(ppo_clip_loss(ratio.log(), zero, -one, clip_low=0.1, clip_high=0.28), [[0.9, 2.0]])


def test_ppo_clip_on_itself_gives_the_policy_gradient() -> None:
    """`old_logp=logp` without detach must not lose the gradient."""
    logp, advantages = torch.randn(2, 3).double(), torch.randn(2, 1).double()
    ours = gradient(lambda x: ppo_clip_loss(x, x, advantages), logp)
    same(ours, gradient(lambda x: policy_gradient_loss(x, advantages), logp))


def test_log_ratio_clamp() -> None:
    far, zero, minus = f64([[50.0]]), f64([[0.0]]), f64([[-1.0]])
    same(ppo_clip_loss(far, zero, minus) / f64(20.0).exp(), [[1.0]])
    same(ppo_clip_loss(far, zero, minus, log_ratio_clamp=None) / f64(50.0).exp(), [[1.0]])
    same(ppo_clip_loss(far, zero, minus, log_ratio_clamp=10.0) / f64(10.0).exp(), [[1.0]])


# 4. Value loss


def test_value_loss_forms() -> None:
    new, old, target = f64([2.0]), f64([1.0]), f64([1.1])
    same(value_loss(new, target, old_values=old, clip=0.2), [0.405])
    same(value_loss(new, target, old_values=old, clip=0.2, form="clipped"), [0.01])
    same(value_loss(new, target), [0.405])
    same(value_loss(new, target, form="clipped"), [0.81])
    for form, slope in (("max", 0.9), ("clipped", 0.0)):
        clipped = gradient(
            lambda x, form=form: value_loss(x, target, old_values=old, clip=0.2, form=form), new
        )
        same(clipped, [slope])


# 5. KL: values in test_numbered_faults.py


def test_kl_clamp_spares_k1() -> None:
    logp, ref = f64([30.0, -30.0]), f64([0.0, 0.0])
    same(kl_estimate(logp, ref, "k1"), [30, -30])
    same(kl_estimate(logp, ref, "k2"), [200, 200])
    same(kl_estimate(logp, ref, "k2", log_ratio_clamp=None), [450, 450])
    same(kl_estimate(logp, ref, "k3")[0], 19 + f64(-20.0).exp())
    same(kl_estimate(logp, ref, "k3", log_ratio_clamp=None)[0], 29 + f64(-30.0).exp())


def test_kl_value_of_k1_with_the_gradient_of_k2() -> None:
    """verl's `k1+` and `k3+`, out of two of our calls."""
    logp, ref = f64([-2.0, -1.0]), f64([-1.0, -1.5])

    def plus(kind: str, x: torch.Tensor) -> torch.Tensor:
        k2 = kl_estimate(x, ref, "k2")
        return kl_estimate(x, ref, kind).detach() + k2 - k2.detach()

    same(plus("k3", logp), [0.7182818285, 0.1065306597])
    for kind in ("k1", "k3"):
        same(gradient(lambda x, kind=kind: plus(kind, x), logp), [-1, 0.5])


def test_k3_keeps_the_digits_of_small_differences() -> None:
    d = torch.tensor([1e-4, 3e-6, -1e-4, 1e-7])
    k3 = kl_estimate(d, torch.zeros(4), "k3")
    exact = kl_estimate(d.double(), torch.zeros(4).double(), "k3")
    assert (k3 >= 0).all()
    assert (k3 - exact).abs().max() < 1e-11
    assert ((torch.exp(-d) - 1 + d) - exact).abs().max() > 1e-9  # the usual form


# 6. Group advantages

ONE_RIGHT = f64([1, 0, 0, 0])


@pytest.mark.parametrize(
    ("options", "first", "others", "atol"),
    [
        ({}, 1.49970006, -0.49990002, 1e-8),
        ({"eps": 1e-6}, 1.499997, -0.499999, 1e-6),
        ({"eps": 1e-9}, 1.499999997, -0.499999999, 1e-9),
        ({"ddof": 0}, 1.7316508999, -0.5772169666, 1e-9),
        ({"scale": None}, 0.75, -0.25, 1e-12),
        ({"scale": None, "baseline": "leave-one-out"}, 1, -1 / 3, 1e-12),
    ],
)
def test_group_advantages(options: dict, first: float, others: float, atol: float) -> None:
    same(group_advantages(ONE_RIGHT, 4, **options), [first, others, others, others], atol)


def test_group_advantages_over_the_batch_std() -> None:
    rewards = f64([1, 0, 0, 0, 1, 1, 1, 0])
    a, b = 1.4028590691, 0.4676196897
    expected = f64([a, -b, -b, -b, b, b, b, -a])
    same(group_advantages(rewards, 4, scale="batch"), expected)
    std = rewards.std()
    same(group_advantages(rewards, 4, scale="batch", eps=0.0), expected * (std + 1e-4) / std)
    moments = merge_moments([batch_moments(rewards[:4]), batch_moments(rewards[4:])])
    for rank in (slice(0, 4), slice(4, 8)):
        local = group_advantages(rewards[rank], 4, scale="batch", moments=moments)
        same(local, expected[rank])


def test_group_ids_in_any_order() -> None:
    rewards, ids = f64([1, 5, 0, 0, 9, 0]), ints([7, 3, 7, 7, 3, 7])
    by_id = group_advantages(rewards, group_ids=ids)
    same(by_id[[0, 2, 3, 5]], group_advantages(ONE_RIGHT, 4))
    same(by_id[[1, 4]], group_advantages(f64([5, 9]), 2))


def test_unscorable_rewards_are_dropped() -> None:
    rewards, valid = f64([1, float("nan"), 0, 0, 0]), ints([1, 0, 1, 1, 1])
    for baseline in ("mean", "leave-one-out"):
        kept = group_advantages(rewards, 5, valid=valid, baseline=baseline)
        same(kept[[0, 2, 3, 4]], group_advantages(ONE_RIGHT, 4, baseline=baseline))
        assert kept[1] == 0


def test_rloo_is_the_rescaled_group_mean() -> None:
    rewards = torch.randn(6).double()
    loo = group_advantages(rewards, 3, baseline="leave-one-out", scale=None)
    same(loo, group_advantages(rewards, 3, scale=None) * 3 / 2)


# 7. Aggregation

PER_TOKEN, MASK = f64([[1, 1, 1, 1, 0], [3, 0, 0, 0, 0]]), ints([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("token-mean", 1.4),
        ("seq-mean-token-mean", 2.0),
        ("seq-mean-token-sum", 3.5),
        ("seq-mean-token-sum-norm", 0.7),
    ],
)
def test_aggregate(mode: str, value: float) -> None:
    same(aggregate(PER_TOKEN, MASK, mode, max_tokens=5), value)


@pytest.mark.parametrize(
    ("mode", "counted", "excluded"),
    [
        ("seq-mean-token-mean", 4 / 3, 2.0),
        ("seq-mean-token-sum", 7 / 3, 3.5),
        ("seq-mean-token-sum-norm", 7 / 15, 0.7),
        ("token-mean", 1.4, 1.4),
    ],
)
def test_aggregate_rows_without_a_token(mode: str, counted: float, excluded: float) -> None:
    per_token = torch.cat([PER_TOKEN, f64([[9, 9, 9, 9, 9]])])
    mask = torch.cat([MASK, ints([[0] * 5])])
    same(aggregate(per_token, mask, mode, max_tokens=5), counted)
    same(aggregate(per_token, mask, mode, max_tokens=5, empty_rows="exclude"), excluded)


# 9. Preferences


@pytest.mark.parametrize(
    ("kind", "smoothing", "value"),
    [
        ("sigmoid", 0.0, 0.3132616875),
        ("sigmoid", 0.1, 0.4132616875),
        ("robust", 0.1, 0.1882616875),
        ("robust", 0.0, 0.3132616875),
    ],
)
def test_label_smoothing(kind: str, smoothing: float, value: float) -> None:
    zero = f64([0.0])
    loss = preference_loss(
        f64([2.0]), zero, zero, zero, beta=0.5, kind=kind, label_smoothing=smoothing
    )
    same(loss, [value])


def test_bradley_terry() -> None:
    chosen, rejected = f64([1.2]), f64([0.4])
    same(reward_model_loss(chosen, rejected), [0.3711006660])
    same(reward_model_loss(chosen, rejected, margin=0.5), [0.5543552445])
    same(reward_model_loss(chosen, rejected, margin=f64([0.5])), [0.5543552445])
    centred = reward_model_loss(chosen, rejected, centre_coefficient=0.01)
    same(centred, [0.3711006660 + 0.01 * 1.6**2])


# 10. Masked mean, entropy


def test_masked_mean_is_exact_and_zero_when_empty() -> None:
    x = f64([1, 2, 3, float("nan")])
    assert masked_mean(x, ints([1, 1, 1, 0])).item() == 2.0
    assert masked_mean(x, ints([0, 0, 0, 0])).item() == 0.0
    by_row = masked_mean(f64([[1, 3], [5, 7]]), ints([[1, 1], [0, 0]]), dim=1)
    same(by_row, [2, 0])
    same(masked_mean(f64([[1, 3], [5, 7]]), None, dim=0), [3, 5])
    same(masked_mean(f64([[1, 3], [5, 7]]), ints([[1, 1], [1, 0]]), dim=(0, 1)), 3)


def test_entropy() -> None:
    same(entropy(f64([0, 0, 0, 0])), 1.3862943611)
    same(entropy(f64([2, 1, 0])), 0.8323955818)
    same(entropy(f64([[1000, 0, 0], [-1e300, 1e300, 0]])), [0, 0])
    same(entropy(f64([2, 1, 0]), temperature=0.5), entropy(f64([4, 2, 0])))
    same(entropy(f64([[0, 0], [0, 0]]), mask=ints([1, 0])), [0.6931471806, 0])
    banned = f64([0, 0, -torch.inf])
    same(entropy(banned), 0.6931471806)
    assert gradient(entropy, banned + f64([1, 0, 0])).isfinite().all()


def test_a_banned_token_has_no_probability_and_a_distant_one_a_finite_logarithm() -> None:
    assert token_logprobs(f64([[0, -torch.inf]]), ints([1])).item() == -torch.inf
    assert token_logprobs(f64([[1e308, -1e308]]), ints([1])).isfinite().all()


# 11. Weights against the sampler

LOG_RATIO = f64([[0.1, 1, -2]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"high": 2.0}, [1.1051709, 2, 0.1353353]),
        ({"mode": "mask", "low": 0.5, "high": 5.0}, [1.1051709, 2.7182818, 0]),
        ({"low": 0.5, "high": 5.0}, [1.1051709, 2.7182818, 0.5]),
        ({"level": "sequence"}, [0.4065697] * 3),
        ({"level": "geometric"}, [0.7408182] * 3),
        ({"level": "geometric", "mode": "mask", "low": 0.8}, [0, 0, 0]),
        ({"level": "sequence", "mode": "mask", "high": 3.0}, [0.4065697] * 3),
        ({"high": None}, [1.1051709, 2.7182818, 0.1353353]),
    ],
)
def test_importance_weights(options: dict, expected: list[float]) -> None:
    train = LOG_RATIO.clone().requires_grad_()
    weights = importance_weights(train, torch.zeros_like(train), None, **options)
    assert not weights.requires_grad
    same(weights, [expected], atol=1e-7)


# 12. GSPO and CISPO


def test_gspo_geometric_mean_and_its_gradient() -> None:
    logp, mask = f64([[0.2, -0.1, 0.5, 9.0]]), ints([[1, 1, 1, 0]])
    zero, one = torch.zeros_like(logp), f64([[1.0]])

    def loss(x: torch.Tensor) -> torch.Tensor:
        per_token = ppo_clip_loss(x, zero, one, mask=mask, ratio="sequence", clip_high=1.0)
        return aggregate(per_token, mask, "seq-mean-token-mean")

    same(-loss(logp), 1.2214027582)
    same(gradient(loss, logp)[0, :3], [-0.4071342527] * 3)
    same(f64(0.6).exp(), 1.8221188004)  # the fault: the sum of the log-ratios


def test_cispo_bounds() -> None:
    ratio = f64([[0.5, 1.3, 2.0]])
    zero, one = torch.zeros_like(ratio), f64([[1.0]])

    def weights(**options: object) -> torch.Tensor:
        return -gradient(lambda x: cispo_loss(x, zero, one, **options), ratio.log())

    same(weights(clip_low=0.2, clip_high=0.28), [[0.8, 1.28, 1.28]])
    same(weights(clip_low=0.0, clip_high=5.0, bounds="absolute"), [[0.5, 1.3, 2.0]])
    same(weights(clip_low=None, clip_high=0.28, bounds="absolute"), [[0.28, 0.28, 0.28]])
