"""Chains: values on paper, walks, lambda-returns and TD(lambda)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nbkit.advantages import token_gae
from nbkit.envs.chains import Chain, coin_chain, lambda_returns, td_lambda

pytestmark = pytest.mark.chapter(2)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("go", "gamma"), [(0.5, 1.0), (1.0, 0.5)])
def test_a_discount_is_a_chance_of_dying(go, gamma):
    assert torch.allclose(coin_chain(go=go).values(gamma), f64([1, 2, 4, 8]))


def test_values_are_the_mean_of_many_returns():
    chain, generator = coin_chain(), torch.Generator().manual_seed(0)
    totals = [chain.episode(1, generator=generator).rewards.sum().item() for _ in range(4000)]
    assert sum(totals) / len(totals) == pytest.approx(2.0, abs=0.25)


def test_walk_that_is_cut_off_says_where_it_stands():
    chain = coin_chain(go=1.0)
    cut = chain.episode(0, generator=torch.Generator(), max_steps=2)
    whole = chain.episode(0, generator=torch.Generator())
    assert cut.states.tolist() == [0, 1] and cut.last_state == 2
    assert whole.states.tolist() == [0, 1, 2, 3] and whole.last_state is None
    assert whole.rewards.tolist() == [0, 0, 0, 8]


def test_endless_chain_has_values_with_a_discount_only():
    endless = Chain(f64([[1.0, 0.0]]), f64([[1.0, 0.0]]))
    assert endless.values(0.9).item() == pytest.approx(10.0)
    with pytest.raises(ValueError, match="never end"):
        endless.values(1.0)


REWARDS, NEXT = [0.0, 0.0, 0.0, 8.0], [2.0, 2.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("lam", "expected"),
    [(0.0, [1, 1, 2, 8]), (0.5, [0.8125, 1.25, 3, 8]), (1.0, [1, 2, 4, 8])],
)
def test_lambda_returns_on_paper(lam, expected):
    assert lambda_returns(f64(REWARDS), f64(NEXT), gamma=0.5, lam=lam).tolist() == expected


@given(
    st.integers(1, 6),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 10_000),
)
@settings(max_examples=50, deadline=None)
def test_lambda_return_is_gae_plus_value(steps, gamma, lam, seed):
    g = torch.Generator().manual_seed(seed)
    rewards = torch.randn(steps, generator=g, dtype=torch.float64)
    values = torch.randn(steps, generator=g, dtype=torch.float64)
    following = torch.cat([values[1:], values.new_zeros(1)])
    advantages, _ = token_gae(rewards[None], values[None], None, gamma=gamma, lam=lam)
    returns = lambda_returns(rewards, following, gamma=gamma, lam=lam)
    assert torch.allclose(returns - values, advantages[0])


@given(st.integers(1, 8), st.floats(0, 1), st.floats(0, 1), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_backward_view_is_the_forward_view(steps, gamma, lam, seed):
    g = torch.Generator().manual_seed(seed)
    states = torch.randint(3, (steps,), generator=g)
    rewards = torch.randn(steps, generator=g, dtype=torch.float64)
    values = torch.randn(3, generator=g, dtype=torch.float64)
    behind = torch.cat([values[states[1:]], f64([0.7])])
    targets = lambda_returns(rewards, behind, gamma=gamma, lam=lam)
    expected = values.clone()
    for state, target in zip(states.tolist(), targets, strict=True):
        expected[state] += 0.3 * (target - values[state])
    found = td_lambda(values, states, rewards, next_value=0.7, gamma=gamma, lam=lam, rate=0.3)
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_td_lambda_learns_the_values(lam):
    chain, generator = coin_chain(), torch.Generator().manual_seed(1)
    values, tail = torch.zeros(4, dtype=torch.float64), []
    for number in range(1500):
        walk = chain.episode(number % 4, generator=generator)
        values = td_lambda(values, walk.states, walk.rewards, gamma=1.0, lam=lam, rate=0.05)
        tail.append(values)
    mean = torch.stack(tail[500:]).mean(0)
    assert torch.allclose(mean, f64([1, 2, 4, 8]), atol=0.4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Chain(f64([[0.5, 0.4]]), f64([[0, 0]])), "add to"),
        (lambda: Chain(f64([[1.0]]), f64([[0.0]])), "S, S"),
        (lambda: coin_chain(0), "states"),
        (lambda: coin_chain(go=1.5), "go"),
        (lambda: coin_chain().episode(4, generator=torch.Generator()), "start"),
        (lambda: lambda_returns(f64([1.0]), f64([1.0, 2.0]), gamma=1, lam=1), "next_values"),
        (
            lambda: td_lambda(
                f64([0.0]), torch.tensor([0, 0]), f64([1.0]), gamma=1, lam=1, rate=0.1
            ),
            "states",
        ),
    ],
)
def test_misfits_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
