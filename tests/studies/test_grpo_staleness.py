"""The lag is exact, and 0 is the trainer's own run; the corrections are what they say."""

import copy
import math
from typing import Any

import pytest
import torch

from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.update import grpo_loss
from studies import _staleness, _staleness_tuning, grpo_staleness
from studies._staleness import apart, lagged_updates, snapshot
from studies.grpo_staleness import (
    ARMS,
    CORRECTIONS,
    LEARNING_RATE,
    SEEDS,
    UPDATES,
    settings,
    verdict,
)
from tests.one_thread import one_thread
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

__all__ = ["one_thread"]
pytestmark = pytest.mark.chapter(35)
SMALL = {"updates": 5, "learning_rate": 1e-2, "decay": False}


def trainer(**changes: Any) -> GRPOTrainer:
    return GRPOTrainer(
        model(), VOCABULARY, PROBLEMS, by_length, config(**SMALL | changes), generator=generator(2)
    )


@pytest.mark.parametrize("changes", CORRECTIONS.values(), ids=CORRECTIONS)
def test_without_a_lag_the_updates_are_the_trainers(changes: dict[str, Any]) -> None:
    ours, theirs = trainer(**changes), trainer(**changes)
    before = snapshot(ours.model)
    history = list(lagged_updates(ours, 0))
    theirs.run(progress=False)
    after, wanted = snapshot(ours.model), snapshot(theirs.model)
    assert all(torch.equal(after[name], wanted[name]) for name in wanted)
    assert any(not torch.equal(after[name], before[name]) for name in before)
    for mine, one in zip(history, theirs.history, strict=True):
        assert mine["gradient_norm"] == one["gradient_norm"] == mine["least_gradient_norm"] > 0
        assert mine["accuracy"] == one["accuracy"] and mine["missing_steps"] == mine["age"] == 0
        assert mine["kl"] < 1e-6 and mine["ess"] > 1 - 1e-5 and mine["outside"] == 0


@pytest.mark.parametrize("lag", [1, 2, 9])
def test_the_lag_is_exact(lag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that sampled update u are those that had learned u - lag times, or the first."""
    one = trainer()
    learned, sampled = [snapshot(one.model)], []
    plain = _staleness.sample_batch

    def noted(sampler: Any, *rest: Any) -> Any:
        assert sampler is not one.model
        sampled.append(snapshot(sampler))
        return plain(sampler, *rest)

    monkeypatch.setattr(_staleness, "sample_batch", noted)
    history = []
    for metrics in lagged_updates(one, lag):
        history.append(metrics)
        learned.append(snapshot(one.model))
    for number, weights in enumerate(sampled):
        wanted = learned[max(0, number - lag)]
        assert all(torch.equal(weights[name], wanted[name]) for name in wanted), number
        others = [v for v in learned if v is not wanted]
        assert all(any(not torch.equal(weights[n], v[n]) for n in v) for v in others), number
    assert [step["age"] for step in history] == [min(u, lag) for u in range(5)]
    assert history[0]["kl"] < 1e-6 < 1e-4 < history[-1]["kl"]
    assert history[-1]["ess"] < 0.999 and history[-1]["outside"] > 0


def test_minibatches_are_noted_each() -> None:
    history = list(lagged_updates(trainer(minibatches=2), 1))
    assert all(step["steps"] == 2 and step["missing_steps"] == 0 for step in history)
    assert all(0 < step["least_gradient_norm"] <= step["gradient_norm"] for step in history)
    assert any(step["least_gradient_norm"] < step["gradient_norm"] for step in history)


def test_how_far_apart_by_numbers() -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    weights = torch.tensor([[1.0, 4.0, 0.5], [1.1, 9.0, 9.0]]).double()
    behaviour = torch.full((2, 3), -2.0).double()
    found = apart(behaviour, behaviour + weights.log(), mask)
    counted = [1.0, 4.0, 0.5, 1.1]
    k3 = [w - 1 - math.log(w) for w in counted]
    capped = [min(w, 2.0) for w in counted]
    products = [2.0, 1.1]
    assert found["kl"] == pytest.approx(sum(k3) / 4)
    assert found["kl_k1"] == pytest.approx(-sum(map(math.log, counted)) / 4)
    for name, values in (("ess", counted), ("ess_capped", capped), ("ess_sequences", products)):
        share = sum(values) ** 2 / (len(values) * sum(w * w for w in values))
        assert found[name] == pytest.approx(share), name
    assert found["capped"] == 0.25 and found["outside"] == 0.5


def test_with_one_step_the_two_uncorrected_arms_have_one_gradient() -> None:
    """And with several steps a batch, once the policy has moved, they have not."""
    g = torch.Generator().manual_seed(5)
    now = -torch.rand(8, 6, generator=g, dtype=torch.float64) - 0.1
    moved = now + 0.5 * torch.randn(8, 6, generator=g, dtype=torch.float64)
    advantages = torch.randn(8, 1, generator=g, dtype=torch.float64)
    mask = torch.ones(8, 6, dtype=torch.bool)

    def gradient(correction: str, minibatches: int, at: torch.Tensor) -> torch.Tensor:
        leaf = at.clone().requires_grad_()
        loss = grpo_loss(leaf, now, advantages, mask, settings(correction, minibatches))
        return torch.autograd.grad(loss, leaf)[0]

    for minibatches in (1, 4):
        own = gradient("own log-probabilities", minibatches, now)
        none = gradient("no ratio", minibatches, now)
        torch.testing.assert_close(own, none, atol=1e-14, rtol=1e-12)
        assert none.abs().max() > 1e-4
    own, none = (gradient(name, 4, moved) for name in ("own log-probabilities", "no ratio"))
    assert (own - none).abs().max() > 0.2 * none.abs().max()


def test_the_protocol() -> None:
    assert not set(SEEDS) & set(_staleness_tuning.SEEDS) and len(SEEDS) >= 3
    assert max(lag for _, lag, _ in ARMS.values()) * 4 <= UPDATES
    assert LEARNING_RATE in _staleness_tuning.RATES
    for correction, lag, times in ARMS.values():
        chosen = settings(correction, learning_rate=times * LEARNING_RATE)
        assert chosen.minibatches == chosen.epochs == 1 and lag >= 0
        assert chosen.recomputes_old == (correction in ("decoupled", "own log-probabilities"))
        assert (chosen.importance_cap == 2.0) == (correction == "decoupled")


def test_an_update_is_silent_where_all_rewards_of_each_group_are_equal() -> None:
    alike = trainer()
    alike.reward_fn = lambda problems, completions: [1.0] * len(completions)
    history = list(lagged_updates(alike, 1))
    assert [step["silent"] for step in history] == [1.0] * 5
    assert [step["missing_steps"] for step in history] == [0.0] * 5
    assert [step["silent"] for step in lagged_updates(trainer(), 1)] == [0.0] * 5


def test_a_result_without_a_gradient_is_refused() -> None:
    good = {
        "seed": 1, "after": {"accuracy": 0.5}, "mean": {"kl": 0.1},
        "least_gradient_norm": 0.2, "missing_steps": 0.0, "skipped": 0.0,
    }  # fmt: skip
    assert len(list(verdict({"an arm": [good]}))) == 1
    for wrong in ({"least_gradient_norm": 0.0}, {"missing_steps": 1.0}, {"skipped": 1.0}):
        with pytest.raises(SystemExit, match="an arm, seed 1: some step had no gradient"):
            list(verdict({"an arm": [good, {**copy.deepcopy(good), **wrong}]}))


def test_a_run_tells_what_the_page_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = snapshot(grpo_staleness.recipe(2).taught(1))
    plain = grpo_staleness.trainer_of
    monkeypatch.setattr(grpo_staleness, "base", lambda seed, lessons: weights)
    monkeypatch.setattr(grpo_staleness, "trainer_of", lambda *given: plain(*given, by_length))
    monkeypatch.setattr(grpo_staleness, "EVERY", 2)
    monkeypatch.setattr(grpo_staleness, "HELD_OUT", 16)
    run = grpo_staleness.trained(settings("decoupled", 2, updates=4, prompts=2), 2, 1)
    assert len(run["held_out"]) == 3 and run["age"] == 2 and run["steps"] == 8
    assert run["least_gradient_norm"] > 0 and run["mean"]["kl"] > 0
    assert all(len(values) == 2 for values in run["curve"].values())
