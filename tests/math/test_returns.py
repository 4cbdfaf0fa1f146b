"""Returns and advantages against independent oracles: explicit sums and plain loops."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from tensor_values import f64, same
from torch import Tensor

from nbkit import advantages as advantages_module
from nbkit._scan import reverse_scan
from nbkit.advantages import (
    batch_moments,
    discounted_returns,
    gae,
    group_advantages,
    merge_moments,
    token_gae,
    whiten,
)

SEEDS = st.integers(0, 100_000)
FACTORS = st.sampled_from([0.0, 0.3, 0.95, 1.0])


def by_definition(
    rewards: list[float],
    values: list[float],
    next_values: list[float],
    terminated: list[bool],
    done: list[bool],
    gamma: float,
    lam: float,
) -> list[float]:
    """A[t] = sum over l of (gamma lam)^l delta[t+l], up to the end of the episode: no recursion."""
    steps = range(len(rewards))
    deltas = [
        rewards[t] + (0.0 if terminated[t] else gamma * next_values[t]) - values[t] for t in steps
    ]
    out = []
    for start in steps:
        total, weight = 0.0, 1.0
        for t in range(start, len(rewards)):
            total += weight * deltas[t]
            weight *= gamma * lam
            if done[t]:
                break
        out.append(total)
    return out


@given(seed=SEEDS, steps=st.integers(1, 12), gamma=FACTORS, lam=FACTORS)
def test_gae_is_its_defining_sum(seed: int, steps: int, gamma: float, lam: float) -> None:
    g = torch.Generator().manual_seed(seed)
    rewards, values, next_values = torch.randn(3, steps, 2, generator=g, dtype=torch.float64)
    done = torch.rand(steps, 2, generator=g) < 0.3
    terminated = done & (torch.rand(steps, 2, generator=g) < 0.5)
    # Nothing may be read behind a terminal state.
    unread = next_values.masked_fill(terminated, float("nan"))
    advantages, returns = gae(rewards, values, unread, terminated, done, gamma=gamma, lam=lam)
    for n in range(2):
        columns = (x[:, n].tolist() for x in (rewards, values, next_values, terminated, done))
        same(advantages[:, n], by_definition(*columns, gamma, lam), atol=1e-12)
        same(
            gae(*(x[:, n] for x in (rewards, values, unread, terminated, done)),
                gamma=gamma, lam=lam)[0],
            advantages[:, n], atol=0,
        )  # fmt: skip
    same(returns, advantages + values, atol=1e-12)


@given(seed=SEEDS, steps=st.integers(1, 10), gamma=FACTORS, lam=FACTORS)
def test_gae_skips_dummy_rows_as_if_they_were_deleted(
    seed: int, steps: int, gamma: float, lam: float
) -> None:
    g = torch.Generator().manual_seed(seed)
    tensors = list(torch.randn(3, steps, generator=g, dtype=torch.float64))
    done = torch.rand(steps, generator=g) < 0.3
    flags = [done & (torch.rand(steps, generator=g) < 0.5), done]
    valid = torch.rand(steps, generator=g) < 0.7
    if not valid.any():
        valid[0] = True
    kept = gae(*(x[valid] for x in tensors + flags), gamma=gamma, lam=lam)
    for x in tensors:
        x[~valid] = float("inf")
    whole = gae(*tensors, *flags, gamma=gamma, lam=lam, valid=valid)
    for mine, theirs in zip(whole, kept, strict=True):
        same(mine[valid], theirs, atol=1e-12)
        assert (mine[~valid] == 0).all()


@given(seed=SEEDS, gamma=FACTORS, lam=FACTORS)
def test_token_functions_skip_masked_tokens_as_if_they_were_deleted(
    seed: int, gamma: float, lam: float
) -> None:
    g = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 4, 9, generator=g, dtype=torch.float64)
    mask = torch.rand(4, 9, generator=g) < 0.6
    advantages, returns = token_gae(rewards, values, mask, gamma=gamma, lam=lam)
    reward_to_go = discounted_returns(rewards, gamma, mask=mask)
    for row in range(4):
        m = mask[row]
        alone = (rewards[row, m][None], values[row, m][None])
        if not m.any():
            assert (advantages[row] == 0).all()
            continue
        kept_advantages, kept_returns = token_gae(*alone, None, gamma=gamma, lam=lam)
        same(advantages[row, m], kept_advantages[0], atol=1e-12)
        same(returns[row, m], kept_returns[0], atol=1e-12)
        same(reward_to_go[row, m], discounted_returns(alone[0], gamma)[0], atol=1e-12)
        length = int(m.sum())
        following = torch.cat([alone[1][0, 1:], f64([0.0])])
        last = [False] * (length - 1) + [True]
        oracle = by_definition(
            alone[0][0].tolist(), alone[1][0].tolist(), following.tolist(), last, last, gamma, lam
        )
        same(kept_advantages[0], oracle, atol=1e-12)


@given(seed=SEEDS, gamma=FACTORS)
def test_returns_are_gae_with_lambda_one_and_no_values(seed: int, gamma: float) -> None:
    rewards = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed)).double()
    advantages, _ = token_gae(rewards, torch.zeros_like(rewards), None, gamma=gamma, lam=1.0)
    same(advantages, discounted_returns(rewards, gamma), atol=1e-12)
    same(discounted_returns(rewards[0], gamma), discounted_returns(rewards, gamma)[0], atol=0)


@given(seed=SEEDS, ddof=st.sampled_from([0, 1]), shift=st.floats(-100, 100))
def test_whitened_values_have_mean_zero_and_deviation_one(
    seed: int, ddof: int, shift: float
) -> None:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 5, generator=g, dtype=torch.float64) + shift
    mask = torch.rand(4, 5, generator=g) < 0.7
    mask[0, :3] = True
    result = whiten(x, mask, ddof=ddof, eps=0.0)
    same(result[mask].mean(), 0.0, atol=1e-12)
    same(result[mask].std(correction=ddof), 1.0, atol=1e-12)
    same(whiten(3 * x + 1, mask, ddof=ddof, eps=0.0), result, atol=1e-9)
    kept = whiten(x, mask, ddof=ddof, eps=0.0, center=False)
    same(kept[mask].mean(), x[mask].mean(), atol=1e-9)


@given(seed=SEEDS, sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_moments_of_parts_merge_to_those_of_the_whole(seed: int, sizes: list[int]) -> None:
    x = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(seed)).double() + 7
    count, mean, variance = merge_moments([batch_moments(part) for part in x.split(sizes)])
    assert count == len(x)
    if len(x):
        same(torch.as_tensor(mean), x.mean(), atol=1e-12)
        same(torch.as_tensor(variance), x.var(correction=0), atol=1e-12)


def group_oracle(rewards: list[float], baseline: str, scale: str | None, eps: float) -> list[float]:
    """One group by plain loops."""
    out = []
    for i, reward in enumerate(rewards):
        others = rewards[:i] + rewards[i + 1 :]
        used = rewards if baseline == "mean" else others
        mean = sum(used) / len(used)
        advantage = reward - mean
        if scale == "std" and len(used) > 1:
            std = (sum((r - mean) ** 2 for r in used) / (len(used) - 1)) ** 0.5
            if std > 0:
                advantage /= std + eps
        out.append(advantage)
    return out


@given(
    seed=SEEDS,
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=4),
    baseline=st.sampled_from(["mean", "leave-one-out"]),
    scale=st.sampled_from(["std", None]),
)
def test_groups_of_any_size_in_any_order(
    seed: int, sizes: list[int], baseline: str, scale: str | None
) -> None:
    g = torch.Generator().manual_seed(seed)
    rewards = torch.randn(sum(sizes), generator=g, dtype=torch.float64)
    ids = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)) * 17 - 5
    expected = torch.cat(
        [f64(group_oracle(part.tolist(), baseline, scale, 1e-4)) for part in rewards.split(sizes)]
    )
    order = torch.randperm(len(rewards), generator=g)
    result = group_advantages(rewards[order], group_ids=ids[order], baseline=baseline, scale=scale)
    same(result, expected[order], atol=1e-9)


@given(seed=SEEDS, shift=st.sampled_from([-3.0, 0.5, 1000.0]))
def test_group_advantages_ignore_a_shift_and_sum_to_zero(seed: int, shift: float) -> None:
    rewards = torch.randint(0, 3, (12,), generator=torch.Generator().manual_seed(seed)).double()
    for scale in ("std", None):
        result = group_advantages(rewards, 4, scale=scale)
        same(result.reshape(3, 4).sum(1), [0, 0, 0], atol=1e-12)
        same(group_advantages(rewards + shift, 4, scale=scale), result, atol=1e-9)


@given(
    seed=SEEDS,
    steps=st.integers(1, 40),
    shape=st.sampled_from([(), (3,), (2, 3)]),
    dim=st.integers(0, 2),
)
def test_both_ways_of_the_recursion_are_the_plain_loop(
    seed: int, steps: int, shape: tuple[int, ...], dim: int
) -> None:
    """Row by row in numpy, and side by side in torch (which autograd and GPUs take)."""
    g = torch.Generator().manual_seed(seed)
    terms, decays = torch.randn(2, steps, *shape, generator=g, dtype=torch.float64)
    behind = torch.randn(shape, generator=g, dtype=torch.float64)
    carry, rows = behind, []
    for t in reversed(range(steps)):
        carry = terms[t] + decays[t] * carry
        rows.append(carry)
    expected, dim = torch.stack(rows[::-1]), min(dim, len(shape))
    moved = (x.movedim(0, dim) for x in (terms, decays))
    plain = reverse_scan(*moved, dim, behind)
    tracked = reverse_scan(
        terms.movedim(0, dim).clone().requires_grad_(), decays.movedim(0, dim), dim, behind
    )
    for result in (plain, tracked):
        same(result.movedim(dim, 0), expected, atol=1e-12)
    assert tracked.requires_grad
    assert not plain.requires_grad


@pytest.mark.parametrize("elements", [1, 7, 10**6])
def test_gae_in_blocks_of_any_size(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rewards, values, next_values = torch.randn(3, 11, 3, dtype=torch.float64)
    done = torch.rand(11, 3) < 0.3
    wanted = gae(rewards, values, next_values, done, done, gamma=0.9, lam=0.8)[0]
    monkeypatch.setattr(advantages_module, "BLOCK_ELEMENTS", {"other": elements})
    blocked = gae(rewards, values, next_values, done, done, gamma=0.9, lam=0.8)[0]
    same(blocked, wanted, atol=1e-12)


def test_others_that_are_equal_are_not_divided_by_rounding_noise() -> None:
    """Three times 0.1 has no deviation; a naive float32 sum of squares gives it one."""
    rewards = torch.tensor([0.3, 0.1, 0.1, 0.1])
    result = group_advantages(rewards, 4, baseline="leave-one-out")
    torch.testing.assert_close(result[0], torch.tensor(0.2), atol=1e-6, rtol=0)


def moved_by_one(x: Tensor) -> Tensor:
    return torch.roll(x, 1, 0)


def test_the_oracle_sees_a_shifted_flag() -> None:
    """D01's mask moved by one against the oracle: the property above has teeth."""
    rewards, values, next_values = torch.randn(3, 8, dtype=torch.float64)
    done = torch.tensor([0, 0, 1, 0, 0, 1, 0, 0])
    right, _ = gae(rewards, values, next_values, done, done, gamma=0.9, lam=0.8)
    shifted = moved_by_one(done)
    wrong, _ = gae(rewards, values, next_values, shifted, shifted, gamma=0.9, lam=0.8)
    assert (right - wrong).abs().max() > 0.1
