"""Best of n: the bound, the exact divergence, the estimator; by enumeration."""

import itertools
import math

import pytest
import torch

from nbkit.envs.helpful import all_questions, gold_reward
from nbkit.trainers.best_of_n import (
    best_of_n,
    best_of_n_curve,
    best_of_n_distribution,
    best_of_n_kl,
    best_of_n_kl_bound,
    best_of_n_values,
)
from tests.rlhf.small import VOCABULARY, model

pytestmark = pytest.mark.chapter(21)
P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
REWARDS = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)


def by_enumeration(p, rewards, n):
    """All n-tuples of answers; equal best ones share."""
    chosen = [0.0] * len(p)
    for answers in itertools.product(range(len(p)), repeat=n):
        probability = math.prod(p[i] for i in answers)
        best = max(rewards[i] for i in answers)
        winners = [i for i in answers if rewards[i] == best]
        for i in winners:
            chosen[i] += probability / len(winners)
    return chosen


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("rewards", [[1.0, 3.0, 2.0], [1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])
def test_the_distribution_is_that_of_all_tuples(n, rewards):
    got = best_of_n_distribution(P, torch.tensor(rewards, dtype=torch.float64), n)
    assert got.tolist() == pytest.approx(by_enumeration(P.tolist(), rewards, n))


def test_the_bound_by_hand_and_above_the_exact_divergence():
    assert best_of_n_kl_bound(1) == 0.0
    assert best_of_n_kl_bound(4) == pytest.approx(math.log(4) - 0.75)
    for n in (2, 4, 16, 64):
        exact = best_of_n_kl(P, REWARDS, n)
        assert 0 < exact < best_of_n_kl_bound(n)
        assert exact <= -math.log(0.3) + 1e-12  # no more than to choose the best one always
    assert best_of_n_kl(P, torch.zeros(3, dtype=torch.float64), 8) == pytest.approx(0.0)


def test_the_bound_is_reached_by_many_unlikely_answers():
    many = torch.full((20_000,), 1 / 20_000, dtype=torch.float64)
    exact = best_of_n_kl(many, torch.arange(20_000.0, dtype=torch.float64), 8)
    assert exact == pytest.approx(best_of_n_kl_bound(8), abs=1e-3)


def test_the_estimator_is_the_mean_over_all_subsets():
    generator = torch.Generator().manual_seed(1)
    proxy = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    gold = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    for n in (1, 3, 7):
        expected = []
        for row in range(2):
            picked = [
                gold[row, max(subset, key=lambda i, row=row: proxy[row, i])].item()
                for subset in itertools.combinations(range(7), n)
            ]
            expected.append(sum(picked) / len(picked))
        assert best_of_n_values(proxy, gold, n).tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"n must lie in \[1, 7\]"):
        best_of_n_values(proxy, gold, 8)


def test_the_best_of_n_is_the_best():
    asked = all_questions(True)[:3]
    settings = {"max_new_tokens": 6, "seed": 3}

    def length(problems, completions):
        return [float(c.text.count("the") + c.text.count("sure")) for c in completions]

    net = model()
    best = best_of_n(net, VOCABULARY, asked, length, 16, **settings)
    one = best_of_n(net, VOCABULARY, asked, length, 1, **settings)
    assert sum(length(asked, best)) >= sum(length(asked, one))
    curve = best_of_n_curve(
        net, VOCABULARY, asked, length, gold_reward, samples=16, ns=(1, 4, 16), **settings
    )
    assert [row["n"] for row in curve] == [1, 4, 16]
    assert curve[-1]["proxy"] == pytest.approx(sum(length(asked, best)) / 3)
    assert curve[0]["proxy"] <= curve[1]["proxy"] <= curve[2]["proxy"]


def test_probabilities_are_checked():
    with pytest.raises(ValueError, match="must sum to 1"):
        best_of_n_distribution(torch.tensor([0.5, 0.4]), torch.tensor([0.0, 1.0]), 2)
