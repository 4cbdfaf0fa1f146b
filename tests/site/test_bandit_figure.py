"""The mathematics of the interactive figure of the bandit, against numbers computed in Python."""

from __future__ import annotations

import json
import math

import pytest
from javascript import THEME, run_javascript

from bookkit.site.pictures import bandit

MODEL = THEME / "interactive" / "bandit-gradient" / "model.js"
POLICIES = [
    [0.5, 0.25, 0.25],
    [0.2, 0.2, 0.6],
    [0.9, 0.05, 0.05],
    [1 / 3, 1 / 3, 1 / 3],
]


def test_paper() -> None:
    """The numbers of the chapter: J 2, gradient (-1/2, 0, 1/2), b* 2.4, variances."""
    found = run_javascript(
        MODEL,
        """
        const pi = m.softmax([Math.log(2), 0, 0]);
        return [m.expectedReward(pi), m.exactGradient(pi), m.bestBaseline(pi),
                [0, 2, 2.4].map((b) => m.variance(pi, b, 1)), m.variance(pi, 0, 4)];
        """,
    )
    assert found[0] == pytest.approx(2)
    assert found[1] == pytest.approx([-0.5, 0, 0.5])
    assert found[2] == pytest.approx(2.4)
    assert found[3] == pytest.approx([4.0625, 0.5625, 0.4625])
    assert found[4] == pytest.approx(4.0625 / 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_both_writings_agree(policy: list[float]) -> None:
    baselines = [-1.0, 0.0, 1.7, 3.0]
    gradient, variances = run_javascript(
        MODEL,
        f"""
        const pi = {json.dumps(policy)};
        return [m.exactGradient(pi), {baselines}.map((b) => m.variance(pi, b, 1))];
        """,
    )
    assert gradient == pytest.approx(bandit.exact_gradient(policy), abs=1e-12)
    assert variances == pytest.approx([bandit.variance(policy, b) for b in baselines], abs=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_best_baseline_has_the_least_variance(policy: list[float]) -> None:
    best = run_javascript(MODEL, f"return m.bestBaseline({json.dumps(policy)});")
    least = bandit.variance(policy, best)
    assert all(bandit.variance(policy, best + step) > least for step in (-0.01, 0.01, -1, 1))


def test_certain_policy_has_a_baseline() -> None:
    assert run_javascript(MODEL, "return m.bestBaseline([0, 0, 1]);") == 4


@pytest.mark.parametrize("pulls", [1, 4])
def test_estimates_have_the_exact_mean_and_variance(pulls: int) -> None:
    count, baseline, policy = 20_000, 1.0, [0.5, 0.25, 0.25]
    mean, spread = run_javascript(
        MODEL,
        f"""
        const random = m.generator(3), pi = {policy};
        const sum = [0, 0, 0], squares = [0, 0, 0];
        for (let i = 0; i < {count}; i += 1) {{
          m.estimate(pi, {baseline}, {pulls}, random).forEach((x, at) => {{
            sum[at] += x; squares[at] += x * x;
          }});
        }}
        const mean = sum.map((x) => x / {count});
        return [mean, squares.reduce((t, x, at) => t + x / {count} - mean[at] ** 2, 0)];
        """,
    )
    error = math.sqrt(bandit.variance(policy, baseline) / pulls / count)
    assert mean == pytest.approx(bandit.exact_gradient(policy), abs=4 * error)
    assert spread == pytest.approx(bandit.variance(policy, baseline) / pulls, rel=0.05)


def test_still_picture_shows_what_the_baseline_removes() -> None:
    def spread(baseline: float) -> float:
        exact = bandit.exact_gradient(bandit.POLICY)
        return sum(
            (x - y) ** 2
            for one in bandit.estimates(baseline, seed=1)
            for x, y in zip(one, exact, strict=True)
        )

    assert spread(2.4) < 0.25 * spread(0.0)
