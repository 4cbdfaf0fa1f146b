"""Stage 2: the score stands at the last real token, and comparisons are learned."""

import math

import pytest
import torch

from nbkit.data.encode import EncodedPair
from nbkit.envs.helpful import Question, encode_pairs, preference_pairs
from nbkit.text.scalar_models import ScalarModel, SharedActorCritic
from nbkit.trainers import reward_model as rm
from nbkit.trainers.scoring import Completion
from tests.rlhf.small import PAD, VOCABULARY, examples, generator, model

pytestmark = pytest.mark.chapter(21)
PADDED = {"pad_id": PAD}


def scalar(seed=0):
    return ScalarModel.from_causal(model(seed), head="random", seed=seed)


def pairs(count=64, seed=2):
    return encode_pairs(preference_pairs(count, seed=seed), VOCABULARY)


def test_the_score_is_that_of_the_last_real_token():
    """FAULTS.md D09: by position, also where PAD is EOS, and on either side of the padding."""
    net = scalar()
    row = [1, 3, 40, 41, 2]
    alone = net.scores(torch.tensor([row]), torch.ones(1, 5, dtype=torch.bool))
    right = net.scores(torch.tensor([[*row, 2, 2]]), torch.tensor([[1] * 5 + [0] * 2]).bool())
    left = net.scores(torch.tensor([[2, 2, *row]]), torch.tensor([[0] * 2 + [1] * 5]).bool())
    assert torch.allclose(alone, right, atol=1e-6) and torch.allclose(alone, left, atol=1e-6)
    each = net(torch.tensor([row]), torch.ones(1, 5))
    assert each.shape == (1, 5) and torch.equal(each[:, -1], alone)


def test_a_new_head_is_zero_and_the_body_is_a_copy():
    base = model()
    net = ScalarModel.from_causal(base)
    assert (net(torch.tensor([[1, 5]]), torch.ones(1, 2)) == 0).all()
    with torch.no_grad():
        next(net.body.parameters()).add_(1.0)
    assert not torch.equal(next(net.body.parameters()), next(base.model.parameters()))
    with pytest.raises(ValueError, match="head must be one of"):
        ScalarModel.from_causal(base, head="ones")


def test_saved_and_read_again(tmp_path):
    net = scalar(3)
    net.save_pretrained(tmp_path / "rm")
    again = ScalarModel.from_pretrained(tmp_path / "rm")
    ids = torch.tensor([[1, 3, 9, 2]])
    assert torch.equal(net(ids, torch.ones(1, 4)), again(ids, torch.ones(1, 4)))
    model().save_pretrained(tmp_path / "lm")
    with pytest.raises(FileNotFoundError, match="not written by ScalarModel"):
        ScalarModel.from_pretrained(tmp_path / "lm")


def test_scores_are_float32_under_autocast():
    net = scalar(3)
    ids = torch.randint(2, 30, (4, 7), generator=torch.Generator().manual_seed(0))
    attention = torch.ones_like(ids)
    kept = []
    net.body.register_forward_hook(lambda _m, _i, out: kept.append(out.last_hidden_state))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        got = net(ids, attention)
    hidden = kept[0].float()
    expected = hidden @ net.head.weight[0] + net.head.bias  # no rounding after the body
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, expected.detach(), atol=1e-6, rtol=1e-6)


def test_the_shared_trunk_gives_the_logits_of_the_model():
    base = model()
    shared = SharedActorCritic(base, head="random")
    ids = torch.tensor([[0, 1, 5, 6], [1, 3, 7, 9]])
    attention = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]).bool()
    logits, values = shared.logits_and_values(ids, attention, 3)
    expected = base(input_ids=ids[1:], attention_mask=attention[1:].long()).logits
    assert torch.allclose(logits[1], expected[0, -3:], atol=1e-6) and values.shape == (2, 3)


def test_the_loss_of_one_step_by_hand():
    net, data = scalar(), pairs(4)
    expected = 0.0
    for pair in data:
        rows = [(*pair.prompt_ids, *answer) for answer in (pair.chosen_ids, pair.rejected_ids)]
        scores = [net.scores(torch.tensor([row]), torch.ones(1, len(row))) for row in rows]
        expected += math.log1p(math.exp((scores[1] - scores[0]).item())) / 4
    config = rm.RewardModelConfig(steps=1, batch_size=4)
    history = rm.RewardModelTrainer(net, data, config, generator=generator(), **PADDED).run(
        progress=False
    )
    assert history[0]["loss"] == pytest.approx(expected, abs=1e-5)


def test_micro_batches_change_memory_and_not_the_gradient():
    states = []
    for micro in (None, 120):
        net = scalar(1)
        config = rm.RewardModelConfig(steps=2, batch_size=16, micro_tokens=micro)
        rm.RewardModelTrainer(net, pairs(16), config, generator=generator(), **PADDED).run(
            progress=False
        )
        states.append(net.state_dict())
    for name, whole in states[0].items():
        assert torch.allclose(whole, states[1][name], atol=2e-4), name


def test_it_learns_an_easy_taste_and_judges_it_on_held_out_pairs():
    """Whoever says "gladly" wins."""
    base = preference_pairs(160, seed=1)
    rows = [
        EncodedPair(
            tuple(VOCABULARY.encode(p.question.prompt)),
            (*VOCABULARY.encode(f"gladly , {p.chosen}"), 2),
            (*VOCABULARY.encode(p.rejected.replace("gladly , ", "")), 2),
        )
        for p in base
    ]
    net = ScalarModel.from_causal(model(width=32))
    config = rm.RewardModelConfig(steps=40, batch_size=32, learning_rate=1e-2)
    history = rm.RewardModelTrainer(
        net, rows[:120], config, generator=generator(), held_out=rows[120:], every=10, **PADDED
    ).run(progress=False)
    assert history[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)  # a zero head
    assert history[-1]["held_out/accuracy"] > 0.9
    assert "held_out/loss" in history[10] and "held_out/loss" not in history[11]


def test_margins_are_demanded_where_they_are_there():
    data = [EncodedPair(p.prompt_ids, p.chosen_ids, p.rejected_ids, margin=2.0) for p in pairs(8)]
    config = rm.RewardModelConfig(steps=1, batch_size=8, use_margin=True)
    history = rm.RewardModelTrainer(
        ScalarModel.from_causal(model()), data, config, generator=generator(), **PADDED
    ).run(progress=False)
    assert history[0]["loss"] == pytest.approx(math.log1p(math.exp(2.0)), abs=1e-5)
    with pytest.raises(ValueError, match="bring no margin"):
        rm.RewardModelTrainer(scalar(), pairs(8), config, generator=generator(), **PADDED).run(
            progress=False
        )


def test_calibration_by_hand():
    """Three gaps with sigmoid .6, .6 and .9; the second favourite was the rejected one."""
    gaps = torch.tensor([0.6, 0.4, 0.9]).logit()
    result = rm.calibration(gaps, bins=5)  # .5-.6, .6-.7, .7-.8, .8-.9, .9-1
    assert sum(result.count) == 3
    assert result.error == pytest.approx((2 * abs(0.6 - 0.5) + abs(0.9 - 1.0)) / 3, abs=1e-6)
    with pytest.raises(ValueError, match="no pairs"):
        rm.calibration(torch.tensor([]))


def test_a_model_that_says_bradley_terry_is_calibrated():
    g = generator(4)
    gaps = torch.randn(40_000, generator=g) * 2
    won = torch.rand(40_000, generator=g) < torch.sigmoid(gaps)
    outcome = torch.where(won, gaps, -gaps)  # chosen minus rejected
    assert rm.calibration(outcome).error < 0.01
    assert rm.calibration(3 * outcome).error > 0.05  # too sure of itself


def test_centring_shifts_scores_and_no_margin():
    net, data = scalar(), examples(40)
    before = rm.margins(net, pairs(16), pad_id=PAD)
    mean = rm.centre(net, data, pad_id=PAD)
    assert abs(mean) > 1e-4
    assert rm.example_scores(net, data, pad_id=PAD).mean().item() == pytest.approx(0, abs=1e-5)
    assert torch.allclose(rm.margins(net, pairs(16), pad_id=PAD), before, atol=1e-5)


def test_the_reward_function_scores_prompt_and_completion():
    net = scalar()
    reward = rm.reward_function(net, VOCABULARY, batch_size=1)
    question = Question("bake bread")
    text = "mix the flour ."
    ids = (*VOCABULARY.encode(text), 2)
    whole, cut = Completion(text, 5, False), Completion(text, 4, True)
    got = reward([question] * 3, [whole, cut, Completion(text, 5, False, ids)])
    prompt = VOCABULARY.encode(question.prompt)
    expected = [
        net.scores(torch.tensor([[*prompt, *row]]), torch.ones(1, len(prompt) + len(row))).item()
        for row in (ids, ids[:-1])
    ]
    assert got[:2] == pytest.approx(expected, abs=1e-6) and got[2] == got[0]


def test_accuracy_counts_a_tie_as_half():
    result = rm.evaluate(ScalarModel.from_causal(model()), pairs(8), pad_id=PAD)
    assert result == pytest.approx({"accuracy": 0.5, "loss": math.log(2), "margin": 0.0})
