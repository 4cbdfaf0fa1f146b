"""Gradient steps: parts equal the whole, silence gives no gradient, weights, metrics, errors."""

import math
from dataclasses import replace

import pytest
import torch

from nbkit.logprobs import next_token_logprobs
from nbkit.masks import position_ids
from nbkit.off_policy import decoupled_ppo_loss
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.batch import PromptStream, sample_batch
from nbkit.trainers.grpo.update import (
    accumulate,
    completion_logprobs,
    grpo_loss,
    prepare,
    scored_by,
    update,
)
from nbkit.trainers.grpo.variants import VARIANTS
from nbkit.trainers.micro import micro_batches
from tests.rlvr.small import (
    PROBLEMS,
    VOCABULARY,
    alone,
    by_length,
    config,
    generator,
    hand_made,
    model,
)

pytestmark = pytest.mark.chapter(24)


def gradient(net):
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def accumulated(batch, settings, weights=None):
    net = model().double()
    net.zero_grad()
    result = accumulate(alone(net), batch, weights, settings)
    return gradient(net), result


def doubled(batch):
    tensors = {
        k: v.double() for k, v in vars(batch).items() if v is not None and v.is_floating_point()
    }
    return replace(batch, **tensors)


def test_completion_logprobs_are_the_models_own():
    batch = hand_made()
    net = model()
    ours = completion_logprobs(net, batch, 0.7)
    logits = net(
        input_ids=batch.ids,
        attention_mask=batch.attention.long(),
        position_ids=position_ids(batch.attention),
    ).logits
    theirs = next_token_logprobs(logits, batch.ids, temperature=0.7)[:, -8:]
    torch.testing.assert_close(ours, theirs * batch.mask, atol=1e-5, rtol=0)


def test_unused_columns_are_cut_without_a_trace():
    batch = hand_made()
    few = batch.rows(batch.mask.sum(1).argsort()[:3])
    assert few.mask.sum(1).max() < few.mask.shape[1]
    whole = completion_logprobs(model(), batch, 1.0)[batch.mask.sum(1).argsort()[:3]]
    torch.testing.assert_close(completion_logprobs(model(), few, 1.0), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_micro_batches_add_up_to_one_batch(name):
    kl = {"kl_coefficient": 0.1} if name == "grpo" else {}
    batch = doubled(hand_made(rows=12))
    settings = config(name, **kl)
    whole, seen = accumulated(batch, settings)
    assert whole.abs().max() > 1e-4
    for budget in (13, 20, 40):
        parts, seen_in_parts = accumulated(batch, replace(settings, micro_tokens=budget))
        torch.testing.assert_close(parts, whole, atol=1e-12, rtol=1e-9)
        assert seen_in_parts["loss"] == pytest.approx(seen["loss"], abs=1e-12)
        assert seen_in_parts["clip_fraction"] == seen["clip_fraction"]


def test_every_row_is_in_one_micro_batch():
    batch = hand_made(rows=12)
    parts = micro_batches(batch.attention, 20)
    assert len(parts) > 3 and sorted(torch.cat(parts).tolist()) == list(range(12))
    for rows in parts:
        assert len(rows) * batch.attention[rows].sum(1).max() <= 20
    with pytest.raises(ValueError, match="max_tokens"):
        micro_batches(batch.attention, 3)


def test_silent_rows_are_skipped_and_still_counted():
    """Rows of advantage 0 are not computed; the gradient is that of computing them."""
    batch = doubled(hand_made(rows=8))
    quiet = batch.advantages.clone()
    quiet[4:] = 0.0
    batch = replace(batch, advantages=quiet)
    settings = config()
    ours, _ = accumulated(batch, settings)
    half, _ = accumulated(batch.rows(torch.arange(4)), settings)
    torch.testing.assert_close(ours, half / 2, atol=1e-12, rtol=1e-9)


def sampled(settings, reward_fn=by_length, net=None):
    net = model() if net is None else net
    stream = PromptStream(len(PROBLEMS), generator())
    return sample_batch(net, VOCABULARY, PROBLEMS, stream, reward_fn, settings)[0]


@pytest.mark.parametrize("name", VARIANTS)
def test_equal_rewards_give_no_gradient(name):
    settings = config(name, dynamic_sampling=False, overlong_buffer=0)
    net = model()
    batch = sampled(settings, lambda p, c: [0.7] * len(c), net)
    batch, weights, _ = prepare(net, None, batch, settings)
    before = [p.clone() for p in net.parameters()]
    optimiser = torch.optim.SGD(net.parameters(), lr=1.0)
    result = update(alone(net, optimiser), batch, weights, settings, generator())
    assert result["gradient_norm"] == 0.0 and result["loss"] == 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_excluding_silent_groups_changes_the_denominator_alone():
    settings = config(objective="policy-gradient")

    def half_silent(problems, completions):
        return [float(i % 4 == 0) if i < 8 else 1.0 for i in range(len(completions))]

    norms = []
    for silent in ("count", "exclude"):
        chosen = replace(settings, silent_groups=silent, max_grad_norm=None)
        net = model()
        batch, weights, _ = prepare(net, None, sampled(chosen, half_silent, net), chosen)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.0)
        norms.append(
            update(alone(net, optimiser), batch, weights, chosen, generator())["gradient_norm"]
        )
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-5)


def test_first_step_has_ratio_one_and_later_steps_do_not():
    settings = config(epochs=3, minibatches=2, learning_rate=0.05)
    net = model()
    batch, weights, _ = prepare(net, None, sampled(settings, net=net), settings)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.05)
    result = update(alone(net, optimiser), batch, weights, settings, generator())
    assert result["ratio_error"] < 1e-4
    assert result["steps"] == 6 and result["clip_fraction"] > 0
    moved = (scored_by(net, batch, settings) - batch.logprobs).abs().max()
    assert moved > 0.01


def test_truncated_importance_weights():
    """A sampler that is off by known amounts: the weights are their exponentials, capped."""
    settings = config(importance_cap=2.0)
    net = model()
    honest = sampled(settings, net=net)
    shift = torch.linspace(-1.5, 1.5, honest.mask.shape[1]).expand(honest.mask.shape)
    off = replace(honest, logprobs=(honest.logprobs + shift) * honest.mask)
    batch, weights, metrics = prepare(net, None, off, settings)
    expected = (-shift).exp().clamp(max=2.0) * honest.mask
    torch.testing.assert_close(weights, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(batch.logprobs, honest.logprobs, atol=1e-4, rtol=0)
    assert metrics["importance_weight"] == pytest.approx(
        expected.sum().item() / honest.mask.sum().item(), rel=1e-4
    )
    plain, _ = accumulated(doubled(batch), settings)
    heavy, _ = accumulated(doubled(batch), settings, weights.double())
    ones, _ = accumulated(doubled(batch), settings, torch.ones_like(weights).double())
    torch.testing.assert_close(ones, plain)
    assert not torch.allclose(heavy, plain)


def shifted(settings, net):
    """A batch whose sampler was off by known amounts."""
    honest = sampled(settings, net=net)
    shift = torch.linspace(-1.5, 1.5, honest.mask.shape[1]).expand(honest.mask.shape)
    return honest, replace(honest, logprobs=(honest.logprobs + shift) * honest.mask)


def test_whose_log_probabilities_are_the_old_ones():
    """The sampler's stay as they came; the trainer's are computed anew, weighted only by a cap."""
    net = model()
    _, off = shifted(config(), net)
    found = {}
    for name, changes in {
        "default": {},
        "sampler": {"old_logprobs": "sampler"},
        "trainer": {"old_logprobs": "trainer"},
        "cap": {"importance_cap": 2.0},
        "both": {"importance_cap": 2.0, "old_logprobs": "trainer"},
    }.items():
        found[name] = prepare(net, None, off, config(**changes))
    own = scored_by(net, off, config())
    for name in ("default", "sampler"):
        batch, weights, metrics = found[name]
        assert batch.logprobs is off.logprobs and weights is None and metrics == {}
    for name in ("trainer", "cap", "both"):
        batch, weights, metrics = found[name]
        assert torch.equal(batch.logprobs, own)
        assert metrics["sampler_error"] == pytest.approx(1.5, abs=1e-3)
        assert (weights is None) == (name == "trainer")
        assert ("importance_weight" in metrics) == (name != "trainer")
    assert torch.equal(found["cap"][1], found["both"][1])


def test_an_importance_cap_makes_the_loss_the_decoupled_one():
    """With minibatches the trained policy leaves the proximal one, and the clip acts beside w."""
    settings = config(importance_cap=2.0, aggregation="token-mean")
    net = model()
    _, off = shifted(settings, net)
    batch, weights, _ = prepare(net, None, off, settings)
    moved = completion_logprobs(model(3), off, settings.temperature).detach()
    apart = (moved - batch.logprobs).exp()[off.mask]
    assert (apart > 1.2).any() and (apart < 0.8).any() and (weights == 2.0).any()
    ours = grpo_loss(moved, batch.logprobs, batch.advantages, batch.mask, settings, weights=weights)
    theirs = decoupled_ppo_loss(
        moved, batch.logprobs, off.logprobs, batch.advantages, cap=2.0, mask=batch.mask
    )
    torch.testing.assert_close(ours, theirs.sum() / batch.mask.sum(), atol=1e-7, rtol=1e-6)


def test_own_log_probabilities_and_no_ratio_have_one_gradient_in_the_first_step():
    """However far the sampler is away; that of the sampler's log-probabilities is another."""
    net = model()
    _, off = shifted(config(), net)
    gradients = {}
    for name, changes in {
        "own": {"old_logprobs": "trainer"},
        "none": {"objective": "policy-gradient"},
        "no ratio, as CISPO": {"objective": "cispo", "clip_low": 0.0, "clip_high": 0.0},
        "sampler": {},
        "decoupled": {"importance_cap": 2.0},
    }.items():
        settings = config(**changes)
        batch, weights, _ = prepare(net, None, off, settings)
        wide = None if weights is None else weights.double()
        gradients[name], _ = accumulated(doubled(batch), settings, wide)
    size = gradients["none"].abs().max()
    assert size > 1e-4
    for name, limit in (("own", 1e-4), ("no ratio, as CISPO", 1e-12)):
        assert (gradients[name] - gradients["none"]).abs().max() < limit * size, name
    for name in ("sampler", "decoupled"):
        assert (gradients[name] - gradients["none"]).abs().max() > 0.05 * size, name
    assert (gradients["sampler"] - gradients["decoupled"]).abs().max() > 0.05 * size


def test_kl_metric_and_the_pull_of_the_reference():
    """Without reward, a KL term of either place draws the policy to the reference."""
    for name, place, kind in (("grpo", "loss", "k2"), ("reinforce++", "reward", "k1")):
        settings = config(
            name, kl_coefficient=1.0, kl_place=place, kl_kind=kind, updates=25, prompts=16,
            learning_rate=1e-2,
        )  # fmt: skip
        history = GRPOTrainer(
            model(0),
            VOCABULARY,
            PROBLEMS,
            lambda p, c: [0.0] * len(c),
            settings,
            reference=model(5),
            generator=generator(),
        ).run(progress=False)
        assert history[-1]["kl"] < 0.7 * history[0]["kl"], place


def test_kl_of_a_policy_with_itself_is_zero():
    history = GRPOTrainer(
        model(),
        VOCABULARY,
        PROBLEMS,
        by_length,
        config(updates=1, kl_coefficient=0.1),
        reference=model(),
        generator=generator(),
    ).run(progress=False)
    assert 0 <= history[0]["kl"] < 1e-8


def test_no_step_is_taken_on_a_gradient_that_is_not_finite():
    settings = config()
    net = model()
    batch = hand_made()
    batch = replace(batch, advantages=batch.advantages * math.inf)
    batch = replace(batch, advantages=batch.advantages.nan_to_num(0.0, math.inf, -math.inf))
    before = [p.clone() for p in net.parameters()]
    optimiser = torch.optim.AdamW(net.parameters())
    found = update(alone(net, optimiser), batch, None, settings, generator())
    assert found["skipped"] == 1 and found["steps"] == 0
    assert not math.isfinite(found["gradient_norm"])
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_models_that_cannot_be_trained():
    def trainer(net, **changes):
        return GRPOTrainer(
            net, VOCABULARY, PROBLEMS, by_length, config(**changes), generator=generator()
        )

    with pytest.raises(ValueError, match="frozen"):
        trainer(model().requires_grad_(False))
    with pytest.raises(ValueError, match="reference is missing"):
        trainer(model(), kl_coefficient=0.1)
    shaky = model()
    shaky.config.attention_dropout = 0.1
    trainer(shaky)
    with pytest.raises(ValueError, match="dropout"):
        trainer(shaky.train())


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, 2 / 8),  # 1.5 with a positive advantage, 0.5 with a negative one
        ({"clip_high": 0.6}, 1 / 8),
        ({"objective": "policy-gradient"}, 0.0),
        ({"objective": "cispo", "clip_low": None, "clip_high": 0.2}, 2 / 8),
        ({"objective": "cispo", "clip_low": 0.2, "clip_high": 0.2}, 4 / 8),
    ],
)
def test_clip_fraction_by_numbers(changes, share):
    batch = hand_made(rows=2, width=4)
    signs = torch.tensor([[1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    ratios = torch.tensor([[1.5, 0.5, 1.1, 1.0], [1.5, 0.5, 0.9, 1.0]])
    everything = torch.ones(2, 4, dtype=torch.bool)
    attention = torch.cat([batch.attention[:, :-4], everything], 1)
    batch = replace(batch, mask=everything, attention=attention, advantages=signs)
    settings = config(**changes)
    batch = replace(batch, logprobs=scored_by(model(), batch, settings) - ratios.log())
    assert accumulate(alone(model()), batch, None, settings)["clip_fraction"] == share
