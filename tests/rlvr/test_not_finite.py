"""Where a nan could come from in a GRPO update, one suspect a test; each is shown or ruled out.

On a CPU. What only a GPU runs (its attention kernels, CUDA graphs, the fused softmax) is not here.
"""

import math
from dataclasses import replace

import pytest
import torch

from nbkit.generate import generate
from nbkit.logprobs import entropy, token_logprobs
from nbkit.masks import position_ids
from nbkit.parallel import ParallelConfig, World, connect
from nbkit.trainers.grpo.update import accumulate, completion_logprobs, grpo_loss, prepare, update
from nbkit.trainers.grpo.variants import VARIANTS
from nbkit.trainers.rlhf.batch import RLHFBatch
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.rlhf.update import policy_loss
from tests.rlvr.small import VOCABULARY, alone, config, generator, hand_made, model

pytestmark = pytest.mark.chapter(23)

EVERY = [
    *((name, {}) for name in VARIANTS),
    ("grpo", {"kl_coefficient": 0.1, "kl_kind": "k1"}),
    ("grpo", {"kl_coefficient": 0.1, "kl_kind": "k2"}),
    ("grpo", {"kl_coefficient": 0.1, "kl_kind": "k3"}),
    ("grpo", {"kl_coefficient": 0.1, "kl_kind": "k3", "kl_ratio": True}),
    ("grpo", {"importance_cap": 2.0}),
]


def in_bfloat16(net):
    net.forward = torch.autocast("cpu", dtype=torch.bfloat16)(net.forward)
    return net


def finite(net):
    return all(p.grad is None or bool(p.grad.isfinite().all()) for p in net.parameters())


# ---- attention


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("cast", [False, True])
def test_rows_of_the_mask_that_see_nothing(attention, cast):
    """A padding token on the left may look at nobody: a softmax over only -inf.

    Its output must not be nan: times a weight of 0 it would reach the real tokens one layer up.
    """
    ids = torch.randint(2, len(VOCABULARY), (3, 24), generator=generator())
    real = torch.ones(3, 24, dtype=torch.bool)
    real[1, :9], real[2, :23] = False, False
    gradients = []
    for row in range(3):
        for padded in (True, False):
            net = model(layers=3)
            net.set_attn_implementation(attention)
            net = in_bfloat16(net) if cast else net
            rows, columns = (slice(None), slice(None)) if padded else ([row], real[row])
            seen = real[rows][:, columns]
            logits = net(
                input_ids=ids[rows][:, columns],
                attention_mask=seen.long(),
                position_ids=position_ids(seen),
                use_cache=False,
            ).logits
            assert logits.isfinite().all()
            logits[row if padded else 0].float().log_softmax(-1)[-1, 3].backward()
            assert finite(net)
            gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
        with_others, by_itself = gradients[-2:]
        scale = by_itself.abs().max()
        assert (with_others - by_itself).abs().max() < (0.05 if cast else 1e-4) * scale


@pytest.mark.parametrize("checkpointing", ["full", "selective", "wide"])
def test_activations_that_are_computed_again(checkpointing):
    """In bfloat16, under left padding; the second pass must be the first one."""
    gradients = []
    for word in ("none", checkpointing):
        net = model(layers=3)
        setting = ParallelConfig(precision="bfloat16", checkpointing=word)
        parallel = connect(setting, World())
        parallel.prepare(net, lambda weights: torch.optim.SGD(weights, lr=0.0))
        accumulate(parallel, hand_made(), None, config())
        assert finite(net)
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-3)


# ---- log-probabilities


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_that_are_banned(dtype):
    """A logit of -inf: p is 0, and p log p and its slope are 0 and not nan."""
    logits = torch.randn(2, 5, 11, generator=generator()).to(dtype)
    logits[..., 3:6] = -math.inf
    logits.requires_grad_(True)
    tokens = torch.full((2, 5), 7)
    logp = token_logprobs(logits, tokens)
    (logp.sum() + entropy(logits).sum()).backward()
    assert logp.isfinite().all() and logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_that_are_far_away(dtype):
    """Logits that lie as far apart as their type can hold."""
    logits = torch.zeros(1, 2, 7, dtype=dtype)
    logits[0, 0, 0], logits[0, 1, 1] = 3e38, -3e38
    logits.requires_grad_(True)
    logp = token_logprobs(logits, torch.ones(1, 2, dtype=torch.long))
    (logp * 1e-3).sum().backward()
    assert logp.isfinite().all() and logits.grad.isfinite().all()


# ---- losses


def losses(name, changes, spoil):
    """The gradient of log-probabilities and the loss, for a batch that was spoiled."""
    settings, batch = config(name, **changes), hand_made()
    logp = (batch.logprobs + 0.1).clone()
    weights = torch.ones_like(logp) if settings.importance_cap else None
    logp, batch = spoil(logp, batch)
    logp = logp.detach().requires_grad_(True)
    loss = grpo_loss(
        logp, batch.logprobs, batch.advantages, batch.mask, settings,
        ref_logp=batch.ref_logprobs, weights=weights,
    )  # fmt: skip
    loss.backward()
    return loss, logp.grad, batch.mask


@pytest.mark.parametrize(("name", "changes"), EVERY)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_stands_outside_of_the_mask(name, changes, value):
    """0 times inf is nan; what does not count may be anything."""

    def spoil(logp, batch):
        outside = ~batch.mask
        names = ("logprobs", "ref_logprobs", "advantages")
        rest = {n: getattr(batch, n).masked_fill(outside, value) for n in names}
        return logp.masked_fill(outside, value), replace(batch, **rest)

    loss, gradient, mask = losses(name, changes, spoil)
    right, expected, _ = losses(name, changes, lambda logp, batch: (logp, batch))
    assert loss == right and torch.equal(gradient, expected)
    assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize(("name", "changes"), EVERY)
@pytest.mark.parametrize("distance", [-1e3, -90.0, 90.0, 1e3, 1e30])
def test_ratios_beyond_what_exp_can_hold(name, changes, distance):
    """exp(89) is inf in float32 and in bfloat16."""

    def spoil(logp, batch):
        far = batch.logprobs + distance * batch.mask
        return far, replace(batch, ref_logprobs=batch.logprobs)

    loss, gradient, _ = losses(name, changes, spoil)
    assert loss.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("distance", [-1e3, 90.0, 1e3])
def test_ratios_of_ppo_beyond_what_exp_can_hold(distance):
    batch = hand_made()
    net = model()
    old = completion_logprobs(net, batch, 1.0).detach()
    rows = RLHFBatch(
        batch.ids, batch.attention, batch.mask, (old - distance) * batch.mask, old, old,
        batch.rewards, batch.truncated, old, batch.advantages, old,
    )  # fmt: skip
    loss, _, _ = policy_loss(net, rows, RLHFConfig(entropy_coefficient=0.1))
    loss.backward()
    assert loss.isfinite() and finite(net)


@pytest.mark.parametrize("scale", ["std", "batch", None])
def test_groups_of_equal_or_huge_rewards(scale):
    """A standard deviation of 0, and squares beyond float32."""
    for rewards in ([0.1] * 8, [1e30, -1e30] * 4, [1e-30, 0.0] * 4):
        batch = replace(hand_made(), rewards=torch.tensor(rewards))
        batch, _, _ = prepare(model(), None, batch, config(scale=scale))
        assert batch.advantages.isfinite().all()


def test_a_completion_without_a_token_that_counts():
    batch = hand_made()
    mask = batch.mask.clone()
    mask[2] = False
    batch = replace(batch, mask=mask, advantages=batch.advantages.masked_fill(~mask, 0.0))
    for name in VARIANTS:
        net = model()
        accumulate(alone(net), batch, None, config(name))
        assert finite(net)


# ---- the sampler


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_sampler_s_log_probabilities_are_finite_everywhere(dtype):
    """Also of tokens behind the EOS, and with a sharp model (logits of several hundred)."""
    net = model(layers=2)
    with torch.no_grad():
        net.lm_head.weight.mul_(3000)
    made = generate(
        net, [[2, 3], [4] * 9], max_new_tokens=12, seeds=0, group_size=4,
        eos_ids=VOCABULARY.eos_id, pad_id=VOCABULARY.pad_id, dtype=dtype,
    )  # fmt: skip
    assert made.logprobs.isfinite().all() and (made.logprobs[~made.mask] == 0).all()


# ---- what is left: a logit of -inf for a token that was sampled


@pytest.mark.parametrize("name", VARIANTS)
def test_a_token_that_the_trainer_thinks_impossible_takes_no_step_or_a_finite_one(name):
    """log 0 is -inf: the loss may be inf or nan, so no weights may be moved by it."""
    net = model()
    batch = hand_made()

    def ban(module, inputs, output):
        output.logits = output.logits.clone()
        output.logits[:, -3, 5:] = -math.inf

    net.register_forward_hook(lambda m, i, o: (ban(m, i, o), o)[1])
    settings = config(name)
    found = update(alone(net), batch, None, settings, generator())
    assert all(p.isfinite().all() for p in net.parameters())
    assert found["steps"] + found["skipped"] == 1
    if settings.objective == "clip":  # the ratio is clamped, of a token or of its response
        assert found["steps"] == 1
    else:  # -A log 0: the loss is inf, its gradient is not
        assert found["skipped"] == 1
    if found["steps"]:
        assert math.isfinite(found["loss"]) and math.isfinite(found["gradient_norm"])
