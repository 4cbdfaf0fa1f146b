"""The mathematics of the interactive figures, against numbers computed here in Python."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from javascript import THEME, run_javascript

from bookkit.exercises.prediction_plot import Plot
from bookkit.exercises.predictions import score_of
from bookkit.site.pictures import tiny_world

CLIP = THEME / "interactive" / "ppo-clip" / "model.js"
PREDICTION = THEME / "interactive" / "prediction" / "model.js"
TINY = THEME / "interactive" / "tiny-policy" / "model.js"


# PPO's clipped objective


def clipped_by_cases(ratio: float, advantage: float, epsilon: float) -> float:
    """The objective written case by case, not as a minimum."""
    if advantage >= 0:
        return (1 + epsilon) * advantage if ratio > 1 + epsilon else ratio * advantage
    return (1 - epsilon) * advantage if ratio < 1 - epsilon else ratio * advantage


GRID = [
    (ratio / 10, advantage / 4, epsilon)
    for ratio, advantage, epsilon in itertools.product(range(0, 26), range(-8, 9), (0.05, 0.2, 0.5))
]


def test_clipped_objective() -> None:
    found = run_javascript(CLIP, f"return {json.dumps(GRID)}.map(p => m.objective(...p));")
    expected = [clipped_by_cases(*point) for point in GRID]
    assert found == pytest.approx(expected, abs=1e-12)


def test_slope_is_the_derivative() -> None:
    step = 1e-6
    smooth = [
        (ratio, advantage, epsilon)
        for ratio, advantage, epsilon in GRID
        if min(abs(ratio - 1 - epsilon), abs(ratio - 1 + epsilon)) > 1e-3
    ]
    found = run_javascript(CLIP, f"return {json.dumps(smooth)}.map(p => m.slope(...p));")
    expected = [
        (clipped_by_cases(r + step, a, e) - clipped_by_cases(r - step, a, e)) / (2 * step)
        for r, a, e in smooth
    ]
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "region"),
    [
        (1.1, 1, "inside"),
        (1.5, 1, "flat"),
        (1.5, -1, "corrective"),
        (0.5, -1, "flat"),
        (0.5, 1, "corrective"),
        (1.5, 0, "corrective"),
    ],
)
def test_region(ratio: float, advantage: float, region: str) -> None:
    assert run_javascript(CLIP, f"return m.region({ratio}, {advantage}, 0.2);") == region


# The tiny policy


def mulberry32(seed: int, count: int) -> list[float]:
    """The generator of the figure, in Python's integers."""
    numbers, state, mask = [], seed, 0xFFFFFFFF
    for _ in range(count):
        state = (state + 0x6D2B79F5) & mask
        mixed = ((state ^ (state >> 15)) * (state | 1)) & mask
        mixed = (mixed + (((mixed ^ (mixed >> 7)) * (mixed | 61)) & mask)) & mask ^ mixed
        numbers.append(((mixed ^ (mixed >> 14)) & mask) / 2**32)
    return numbers


def test_generator() -> None:
    found = run_javascript(
        TINY, "const next = m.generator(42); return Array.from({length: 50}, () => next());"
    )
    assert found == mulberry32(42, 50)
    assert all(0 <= number < 1 for number in found)


def test_both_writings_hold_the_same_world() -> None:
    found = run_javascript(TINY, "return [m.WORDS, m.LENGTH, m.REFERENCE];")
    rows = [
        [row[word] for word in tiny_world.WORDS]
        for row in (*(tiny_world.FOLLOWING[word] for word in tiny_world.WORDS), tiny_world.START)
    ]
    assert found == [list(tiny_world.WORDS), tiny_world.LENGTH, rows]
    assert all(math.isclose(sum(row), 1) for row in rows)


def test_rewards_of_every_review() -> None:
    reviews = tiny_world.reviews()
    codes = [[tiny_world.WORDS.index(word) for word in review] for review in reviews]
    found = run_javascript(
        TINY, f"return {json.dumps(codes)}.map(s => [m.proxyReward(s), m.goldReward(s)]);"
    )
    expected = [[tiny_world.proxy_reward(r), tiny_world.gold_reward(r)] for r in reviews]
    assert found == expected


def test_means_of_the_reference() -> None:
    found = run_javascript(TINY, "return m.evaluate(m.referencePolicy());")
    proxy, gold, divergence = tiny_world.tilted_means(math.inf)
    assert found["proxy"] == pytest.approx(proxy, abs=1e-12)
    assert found["gold"] == pytest.approx(gold, abs=1e-12)
    assert found["kl"] == pytest.approx(0, abs=1e-12) == pytest.approx(divergence, abs=1e-12)


BETAS = [0.01, 0.03, 0.1, 0.3, 1.0]


def test_best_policy_for_each_beta() -> None:
    found = run_javascript(TINY, f"return {BETAS}.map(m.optimum);")
    for beta, means in zip(BETAS, found, strict=True):
        expected = tiny_world.tilted_means(beta)
        assert [means["proxy"], means["gold"], means["kl"]] == pytest.approx(expected, abs=1e-9)


def test_proxy_and_gold_part() -> None:
    """As the leash loosens the proxy only rises; the gold reward rises and then falls."""
    betas = [2 * 0.005 ** (step / 59) for step in range(60)]
    proxies, golds, divergences = zip(*map(tiny_world.tilted_means, betas), strict=True)
    assert list(proxies) == sorted(proxies)
    assert list(divergences) == sorted(divergences)
    peak = golds.index(max(golds))
    assert 5 < peak < 55
    assert list(golds[: peak + 1]) == sorted(golds[: peak + 1])
    assert list(golds[peak:]) == sorted(golds[peak:], reverse=True)
    assert max(golds) > golds[0] + 0.2
    assert golds[-1] < golds[0]


def objective(logits: list[list[list[float]]], beta: float) -> float:
    """E[proxy] − β KL(policy ‖ reference) by enumeration; logits by place and previous word."""
    total = 0.0
    for review in tiny_world.reviews():
        log = 0.0
        previous = len(tiny_world.WORDS)
        for place, word in enumerate(review):
            row = logits[place][previous]
            code = tiny_world.WORDS.index(word)
            log += row[code] - math.log(sum(map(math.exp, row)))
            previous = code
        reference = math.log(tiny_world.reference_probability(review))
        total += math.exp(log) * (tiny_world.proxy_reward(review) - beta * (log - reference))
    return total


@pytest.mark.slow
def test_gradient_estimate_is_unbiased() -> None:
    """The mean of many estimates is the numerical gradient, within four standard errors."""
    beta, batches = 0.1, 4000
    policy, mean, spread = run_javascript(
        TINY,
        f"""
        const policy = m.referencePolicy(), random = m.generator(7);
        const training = {{beta: {beta}, batch: 64, rate: 4, random}};
        for (let i = 0; i < 10; i += 1) m.trainStep(policy, training);
        const flat = (g) => g.flat(2);
        const sum = flat(policy).map(() => 0), squares = sum.slice();
        for (let i = 0; i < {batches}; i += 1) {{
          flat(m.gradient(policy, {beta}, 16, random)).forEach((x, at) => {{
            sum[at] += x; squares[at] += x * x;
          }});
        }}
        const mean = sum.map((x) => x / {batches});
        const variance = squares.map((x, at) => Math.max(0, x / {batches} - mean[at] ** 2));
        return [policy, mean, variance.map(Math.sqrt)];
        """,
    )
    step, worst = 1e-5, 0.0
    parameters = itertools.product(range(5), range(5), range(4))
    for at, (place, previous, word) in enumerate(parameters):
        sides = []
        for sign in (1, -1):
            policy[place][previous][word] += sign * step
            sides.append(objective(policy, beta))
            policy[place][previous][word] -= sign * step
        exact = (sides[0] - sides[1]) / (2 * step)
        error = spread[at] / math.sqrt(batches)
        if error > 0:
            worst = max(worst, abs(mean[at] - exact) / error)
        else:  # a state that cannot be reached
            assert exact == pytest.approx(0, abs=1e-9)
    assert worst < 4


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3])
def test_training_reaches_the_best_policy(beta: float) -> None:
    """300 steps, as the figure runs them, end within 0.02 of what can be reached."""
    found = run_javascript(
        TINY,
        f"""
        const policy = m.referencePolicy(), random = m.generator(1);
        const training = {{beta: {beta}, batch: 64, rate: 4, random}};
        for (let i = 0; i < 300; i += 1) m.trainStep(policy, training);
        return m.evaluate(policy);
        """,
    )
    proxy, gold, _ = tiny_world.tilted_means(beta)
    assert found["proxy"] == pytest.approx(proxy, abs=0.02)
    assert found["gold"] == pytest.approx(gold, abs=0.02)


def test_training_repeats_with_its_seed() -> None:
    run = """
        const policy = m.referencePolicy(), random = m.generator(SEED);
        const training = {beta: 0.05, batch: 64, rate: 4, random};
        for (let i = 0; i < 20; i += 1) m.trainStep(policy, training);
        return m.evaluate(policy).proxy;
    """
    first, again, other = (
        run_javascript(TINY, run.replace("SEED", str(seed))) for seed in (1, 1, 2)
    )
    assert first == again != other


# A prediction


@pytest.mark.parametrize(
    ("log_y", "y_range", "guess", "truth"),
    [
        (False, (0, 4), [(0, 0), (4, 2)], [(-1, 1), (0, 0), (1, 3), (4, 2), (9, 0.5)]),
        (False, (-4, 3), [(2, -1.5)], [(0, -1), (5, 2.25)]),
        (True, (1e-6, 1), [(0, 1e-6), (8, 1e-2)], [(0, 1e-5), (2, 1e-5), (9, 0.3)]),
        (False, (0, 1), [(0, 1), (1, 1)], [(0, 0), (1, 0)]),
    ],
)
def test_a_guess_has_the_score_that_it_has_in_python(log_y, y_range, guess, truth) -> None:
    plot = Plot("a.b", "x", "y", (0, 9), y_range, (), log_y)
    axes = json.dumps({"logY": log_y, "yRange": y_range})
    arguments = f"{axes}, {json.dumps(guess)}, {json.dumps(truth)}"
    found = run_javascript(PREDICTION, f"return m.verdict({arguments});")
    misses = [(plot.distance(plot.value_of(guess, x), y), x, y) for x, y in truth]
    assert found["score"] == score_of(plot, [miss for miss, _, _ in misses])
    assert found["mean"] == pytest.approx(sum(miss for miss, _, _ in misses) / len(misses))
    miss, place, value = max(misses)
    assert (found["place"], found["value"]) == (place, value)
    assert plot.distance(found["guessed"], value) == pytest.approx(miss)
