"""The mathematics of the figures of chapters 2, 3, 11 and 41, against numbers from Python."""

from __future__ import annotations

import json
import math

import pytest
import torch
from javascript import THEME, run_javascript

from bookkit.site.pictures import beta_samples, gae_table, hoverer, mask_edges
from nbkit.advantages import gae
from nbkit.envs.reviews import reviews
from nbkit.rewards.text import sentiment

GAE, MASK, BETA, HOVER = (
    THEME / "interactive" / name / "model.js"
    for name in ("gae-table", "mask-edges", "beta-samples", "hoverer")
)


# Chapter 2: the table of GAE


@pytest.mark.chapter(2)
def test_the_advantages_of_the_chapter() -> None:
    found = run_javascript(
        GAE, "return [m.tdErrors(0.5), m.advantages(0.5, 0.5), m.targets(0.5, 1), m.returns(0.5)];"
    )
    assert found == [[-1, -1, 0, 4], [-1.1875, -0.75, 1, 4], [1, 2, 4, 8], [1, 2, 4, 8]]


@pytest.mark.chapter(2)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.3, 0.95, 1.0])
def test_targets_are_lambda_returns_by_definition(gamma: float, lam: float) -> None:
    targets, parts = run_javascript(
        GAE, f"return [m.targets({gamma}, {lam}), m.parts({gamma}, {lam})];"
    )
    assert targets == pytest.approx([gae_table.target(at, lam, gamma) for at in range(4)])
    rewards, values = torch.tensor(gae_table.REWARDS), torch.tensor(gae_table.CRITIC)
    ends = torch.tensor([False, False, False, True])
    following = torch.cat([values[1:], torch.zeros(1)])
    advantages, _ = gae(rewards, values, following, ends, ends, gamma=gamma, lam=lam)
    assert [sum(row) for row in parts] == pytest.approx(advantages.tolist(), abs=1e-5)
    assert all(parts[at][later] == 0 for at in range(4) for later in range(at))


# Chapter 3: masks over two texts


@pytest.mark.chapter(3)
def test_both_writings_hold_the_same_texts() -> None:
    found = run_javascript(MASK, "return m.TEXTS.map((text) => [text.tokens, text.logprobs]);")
    expected = [
        [[token for token, _ in text], [logprob for _, logprob in text[1:]]]
        for text in mask_edges.TEXTS
    ]
    assert found == expected


@pytest.mark.chapter(3)
def test_the_right_mask_counts_what_the_policy_chose() -> None:
    losses, faults = run_javascript(
        MASK,
        """return [m.losses(m.RIGHT, "shifted"),
                   m.RIGHT.map((edge, text) => m.faults(text, edge, "shifted"))];""",
    )
    tokens, rows = mask_edges.mean_loss([mask_edges.chosen(text) for text in (0, 1)])
    assert (losses["tokenMean"], losses["rowMean"]) == pytest.approx((tokens, rows))
    assert tokens != pytest.approx(rows, abs=0.01)  # else the two means could not be told apart
    assert losses["tokens"] == 5 and faults == [[], []]


@pytest.mark.chapter(3)
def test_a_mask_that_is_not_shifted_counts_the_next_token() -> None:
    losses, faults = run_javascript(
        MASK,
        """return [m.losses(m.RIGHT, "unshifted"),
                   m.RIGHT.map((edge, text) => m.faults(text, edge, "unshifted"))];""",
    )
    late = [[at + 1 for at in mask_edges.chosen(text)] for text in (0, 1)]
    assert losses["tokenMean"] == pytest.approx(mask_edges.mean_loss(late)[0])
    for said in faults:
        assert [words.partition(":")[0] for words in said] == [
            "a token of the answer does not count",
            "padding counts",
        ]


@pytest.mark.chapter(3)
@pytest.mark.parametrize(
    ("edge", "said"),
    [
        ([3, 5], "a token of the prompt counts"),
        ([4, 4], "the end of the sequence does not count"),
        ([5, 5], "a token of the answer does not count"),
        ([4, 6], "padding counts"),
    ],
)
def test_an_edge_that_is_off_is_named(edge: list[int], said: str) -> None:
    (found,) = run_javascript(MASK, f'return m.faults(0, {edge}, "shifted");')
    assert found.startswith(said)


@pytest.mark.chapter(3)
def test_a_row_in_which_nothing_counts_is_no_nan() -> None:
    found = run_javascript(MASK, 'return m.losses([[0, 0], [0, 0]], "shifted");')
    assert found["tokens"] == found["tokenMean"] == found["rowMean"] == 0


# Chapter 11: samples tilted by their reward


@pytest.mark.chapter(11)
def test_samples_are_the_first_of_the_corpus() -> None:
    drawn = [(text, round(sentiment(text), 4)) for text in reviews(8000, seed=1)[:16]]
    assert list(beta_samples.SAMPLES) == drawn
    found = run_javascript(BETA, "return [m.SAMPLES, m.REWARDS.keyword];")
    assert found[0] == [list(sample) for sample in drawn]
    assert found[1] == [1 if "great" in text else -1 for text, _ in drawn]
    assert 0 < found[1].count(1) < 16


@pytest.mark.chapter(11)
@pytest.mark.parametrize("kind", ["sentiment", "keyword"])
@pytest.mark.parametrize("beta", [0.01, 0.1, 1.0, 10.0])
def test_shares_and_what_they_sum_to(kind: str, beta: float) -> None:
    rewards, shares, found = run_javascript(
        BETA,
        f"""const r = m.REWARDS.{kind};
            return [r, m.weights(r, {beta}), m.summary(r, {beta})];""",
    )
    expected = beta_samples.shares(rewards, beta)
    assert shares == pytest.approx(expected, abs=1e-12)
    kl = math.fsum(p * math.log(16 * p) for p in expected if p > 0)
    assert found["kl"] == pytest.approx(kl, abs=1e-9)
    assert found["size"] == pytest.approx(1 / math.fsum(p * p for p in expected))
    # No other shares score more on reward − β KL: mixing a little of any sample in loses.
    score = found["reward"] - beta * kl
    for sample in range(16):
        mixed = [0.99 * p + 0.01 * (at == sample) for at, p in enumerate(expected)]
        paid = math.fsum(p * r for p, r in zip(mixed, rewards, strict=True))
        assert paid - beta * math.fsum(p * math.log(16 * p) for p in mixed if p > 0) < score


# Chapter 41: the hoverer


@pytest.mark.chapter(41)
@pytest.mark.parametrize("controller", [(9.81, 20.0, 6.0), (0.0, 0.0, 0.0), (12.0, -3.0, 1.0)])
def test_flights_of_both_writings_agree(controller: tuple[float, float, float]) -> None:
    flights = run_javascript(
        HOVER, f"return m.STARTS.map((start) => m.fly({json.dumps(controller)}, start));"
    )
    assert len(flights) == len(hoverer.STARTS_M)
    for start, found in zip(hoverer.STARTS_M, flights, strict=True):
        expected = hoverer.fly(controller, start)
        assert found["heights"] == pytest.approx(expected.heights_m, abs=1e-9)
        costs = (expected.off_m, expected.thrust_g, expected.speed_squared)
        assert (found["off"], found["fuel"], found["fast"]) == pytest.approx(costs, abs=1e-9)
    weights = (1.0, 0.3, 0.2)
    words = "{height: 1, fuel: 0.3, speed: 0.2}"
    reward = run_javascript(HOVER, f"return m.judge({json.dumps(controller)}, {words}).reward;")
    assert reward == pytest.approx(hoverer.reward(controller, weights))


def trained(weights: tuple[float, float, float], seed: int = 1) -> dict[str, float]:
    """What the figure's search finds in its thirty iterations."""
    height, fuel, speed = weights
    return run_javascript(
        HOVER,
        f"""
        const weights = {{height: {height}, fuel: {fuel}, speed: {speed}}};
        const random = m.generator({seed});
        let search = m.newSearch();
        for (let i = 0; i < 30; i += 1) search = m.improve(search, weights, random);
        const found = m.judge(search.mean, weights);
        return {{...found, flights: found.flights.map((f) => f.heights.at(-1))}};
        """,
    )


@pytest.mark.chapter(41)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_weighting_gets_what_it_asks_for(seed: int) -> None:
    plain, dear, slow = (trained(weights, seed) for _, weights in hoverer.WEIGHTINGS)
    assert plain["wanted"] > 0.7 and plain["flights"] == pytest.approx([1] * 4, abs=0.02)
    assert dear["wanted"] == 0 and dear["flights"] == [0] * 4 and dear["fuel"] < 0.1
    assert plain["wanted"] > slow["wanted"] + 0.2 and slow["fast"] < 0.5 * plain["fast"]
    for found, (_, weights) in zip((plain, dear, slow), hoverer.WEIGHTINGS, strict=True):
        assert found["reward"] > hoverer.reward(hoverer.best_of_grid(weights), weights) - 0.02


@pytest.mark.chapter(41)
def test_the_search_repeats_with_its_seed() -> None:
    weights = hoverer.WEIGHTINGS[0][1]
    assert trained(weights, 5) == trained(weights, 5) != trained(weights, 6)
