"""The loss of a pair and the figures around it, against numbers worked out by hand."""

import math
from types import SimpleNamespace

import pytest
import torch

from nbkit.data.encode import EncodedPair
from nbkit.trainers.dpo import KINDS
from nbkit.trainers.dpo.batch import PairScores, pair_batch, pair_scores, score_pairs
from nbkit.trainers.dpo.loss import dpo_loss, implicit_rewards, pair_metrics
from tests.dpo.small import BOS, EOS, PAD, config, model, pairs, trainer

pytestmark = pytest.mark.chapter(22)


def scores(chosen, rejected, longer=(3,), shorter=(1,)):
    numbers = (torch.tensor(x, dtype=torch.float64) for x in (chosen, rejected))
    return PairScores(*numbers, torch.tensor(longer), torch.tensor(shorter))


ZERO = scores([0.0], [0.0])


@pytest.mark.parametrize(
    ("kind", "smoothing", "expected"),
    [
        # FAULTS D14 through the trainer's own path: 6 nats over 3 tokens, -2 over 1, beta .1
        ("ipo", 0.0, 9.0),
        ("ipo-average", 0.0, 1.0),
        ("hinge", 0.0, 0.2),
        ("sigmoid", 0.0, math.log1p(math.exp(-0.8))),
        ("sigmoid", 0.1, 0.9 * math.log1p(math.exp(-0.8)) + 0.1 * math.log1p(math.exp(0.8))),
        ("sigmoid-average", 0.0, math.log1p(math.exp(-0.4))),
        # SimPO, no reference: 6 nats over 3 tokens against -2 over 1, a difference of 4
        ("simpo", 0.0, math.log1p(math.exp(-0.4))),
        (
            "robust",
            0.1,
            (0.9 * math.log1p(math.exp(-0.8)) - 0.1 * math.log1p(math.exp(0.8))) / 0.8,
        ),
    ],
)
def test_d14_kinds_by_hand(kind, smoothing, expected):
    settings = config(kind=kind, beta=0.1, label_smoothing=smoothing)
    loss = dpo_loss(scores([6.0], [-2.0]), ZERO, settings)
    torch.testing.assert_close(loss, torch.tensor([expected], dtype=torch.float64))


def test_simpo_by_hand_and_in_trl():
    """The margin is taken off inside the sigmoid; the reference does not count; TRL's agrees."""
    policy = scores([-6.0, -3.0], [-2.0, -8.0], (3, 2), (1, 4))
    settings = config(kind="simpo", beta=2.0, simpo_margin=0.5)
    means = [(-2.0, -2.0), (-1.5, -2.0)]
    expected = [math.log1p(math.exp(-(2.0 * (c - r) - 0.5))) for c, r in means]
    for reference in (scores([0.0, 0.0], [0.0, 0.0]), scores([-9.0, 1.0], [4.0, -2.0])):
        assert dpo_loss(policy, reference, settings).tolist() == pytest.approx(expected)
    cpo = pytest.importorskip("trl.experimental.cpo").CPOTrainer
    like = SimpleNamespace(
        loss_type="simpo", alpha=0.0, beta=2.0, simpo_gamma=0.5, label_smoothing=0,
        accelerator=SimpleNamespace(device="cpu"),
    )  # fmt: skip
    theirs, *_ = cpo.cpo_loss(like, *(torch.tensor(x) for x in zip(*means, strict=True)))
    assert theirs.tolist() == pytest.approx(expected, rel=1e-6)


def test_simpo_reads_no_reference():
    """Its rewards are log-probabilities a token, times beta, and no model is scored for it."""
    run = trainer(config(kind="simpo", beta=2.0), reference=model(seed=9))
    first = run.step()
    assert run.reference is None and run.reference_scores is None
    rows = PairScores(*(torch.tensor([x]) for x in (-6.0, -2.0, 3, 1)))
    rewards = implicit_rewards(rows, rows, 2.0, kind="simpo")
    assert [x.item() for x in rewards] == [-4.0, -4.0]
    assert first["margin"] != 0.0 and first["logp_chosen"] < -1.0
    assert first["loss"] == trainer(config(kind="simpo", beta=2.0)).step()["loss"]


def test_a_margin_without_simpo_is_refused():
    with pytest.raises(ValueError, match="kind 'sigmoid' has no margin"):
        config(simpo_margin=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_flows_through_the_policy_alone(kind):
    policy = [torch.tensor([x], requires_grad=True) for x in (0.5, -0.3)]
    reference = [torch.tensor([x], requires_grad=True) for x in (0.2, 0.1)]
    counts = torch.tensor([3]), torch.tensor([1])
    dpo_loss(
        PairScores(*policy, *counts), PairScores(*reference, *counts), config(kind=kind)
    ).sum().backward()
    assert all(x.grad is not None and x.grad.item() != 0 for x in policy)
    assert all(x.grad is None for x in reference)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, math.log(2)),
        ({"label_smoothing": 0.2}, math.log(2)),
        ({"kind": "robust", "label_smoothing": 0.2}, math.log(2)),
        ({"kind": "sigmoid-average"}, math.log(2)),
        ({"kind": "hinge"}, 1.0),
        ({"kind": "ipo"}, 25.0),
        ({"kind": "ipo-average"}, 25.0),
    ],
)
def test_the_loss_of_the_first_step(settings, expected):
    """Policy and reference are equal: log 2, whatever the pairs; on the fly to the bit."""
    first = trainer(config(precompute=False, **settings), reference=model()).step()
    assert first["loss"] == pytest.approx(expected, abs=1e-7 * expected)
    assert first["margin"] == 0.0 and first["accuracy"] == 0.5
    precomputed = trainer(config(**settings)).step()
    assert precomputed["loss"] == pytest.approx(expected, abs=1e-5 * expected)


def test_rewards_margins_and_accuracy():
    policy = scores([1.0, -3.0, 2.0], [0.0, -2.0, 2.0], (1, 1, 1), (1, 1, 1))
    reference = scores([0.0, -1.0, 2.0], [0.5, -4.0, 2.0], (1, 1, 1), (1, 1, 1))
    chosen, rejected = implicit_rewards(policy, reference, 0.5)
    assert chosen.tolist() == [0.5, -1.0, 0.0] and rejected.tolist() == [-0.25, 1.0, 0.0]
    metrics = pair_metrics(policy, reference, 0.5)
    assert metrics["accuracy"] == 0.5  # one right, one wrong, one tie
    assert metrics["margin"] == pytest.approx((0.75 - 2.0 + 0.0) / 3)
    assert metrics["logp_chosen"] == 0.0


def test_a_batch_by_hand():
    batch = pair_batch([EncodedPair([BOS, 5], [6, EOS], [7, 8, EOS])], PAD)
    assert batch.ids.tolist() == [[BOS, 5, 6, EOS, PAD], [BOS, 5, 7, 8, EOS]]
    assert batch.attention.int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert batch.mask.int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 1, 1, 1]]


def test_scores_against_one_answer_at_a_time():
    """No padding, no batch, plain sums over the softmax."""
    net, data = model(), pairs(6)
    got = pair_scores(net, pair_batch(data, PAD))
    parts = score_pairs(net, data, PAD, batch_size=4)
    for i, pair in enumerate(data):
        for name, answer in (("chosen", pair.chosen_ids), ("rejected", pair.rejected_ids)):
            ids = torch.tensor([[*pair.prompt_ids, *answer]])
            logp = net(input_ids=ids).logits[0].log_softmax(-1)
            start = len(pair.prompt_ids)
            total = sum(logp[start + j - 1, token].item() for j, token in enumerate(answer))
            assert getattr(got, name)[i].item() == pytest.approx(total, abs=1e-4)
            assert getattr(parts, name)[i].item() == pytest.approx(total, abs=1e-4)
            assert getattr(got, f"{name}_tokens")[i].item() == len(answer)


def test_the_prompt_takes_no_part_in_the_score():
    """Equal prompts cancel in a margin only where both answers are as likely: mask them."""
    net = model()
    pair = EncodedPair([BOS, 5, 9], [6, EOS], [7, EOS])
    got = pair_scores(net, pair_batch([pair], PAD))
    ids = torch.tensor([[*pair.prompt_ids, *pair.chosen_ids]])
    logp = net(input_ids=ids).logits[0].log_softmax(-1)
    whole = sum(logp[t, ids[0, t + 1]].item() for t in range(4))
    assert abs(whole - got.chosen.item()) > 1.0
