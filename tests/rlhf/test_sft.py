"""Stage 1: the loss counts answers only, by position, and learns."""

import copy

import pytest
import torch

from nbkit.data.encode import Example
from nbkit.trainers import sft
from tests.rlhf.small import PAD, examples, generator, model

pytestmark = pytest.mark.chapter(21)
HAND = [Example((1, 3, 7), (8, 9, 2)), Example((1,), (2,))]


def test_what_counts_by_hand():
    ids, attention, counted = sft.sft_batch(HAND, pad_id=2)  # PAD is EOS, as in GPT-2
    assert ids.tolist() == [[1, 3, 7, 8, 9, 2], [1, 2, 2, 2, 2, 2]]
    assert attention.int().tolist() == [[1] * 6, [1, 1, 0, 0, 0, 0]]
    assert counted.int().tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 0, 0]]
    unmasked = sft.sft_batch(HAND, pad_id=2, mask_prompt=False)[2]
    assert unmasked.int().tolist() == [[0, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0]]


def test_the_loss_is_the_mean_over_answer_ids():
    net = model()
    expected, count = 0.0, 0
    for example in HAND:
        ids = torch.tensor([[*example.prompt_ids, *example.answer_ids]])
        logp = net(input_ids=ids).logits.log_softmax(-1)
        for place in range(len(example.prompt_ids), ids.shape[1]):
            expected -= logp[0, place - 1, ids[0, place]].item()
            count += 1
    batch = sft.sft_batch(HAND, PAD)
    assert sft.sft_loss(net, *batch).item() == pytest.approx(expected / count, abs=1e-5)
    assert sft.evaluate(net, HAND, pad_id=PAD, batch_size=1) == pytest.approx(
        expected / count, abs=1e-5
    )


def test_padding_changes_nothing():
    net = model()
    one = sft.sft_batch(HAND[1:], PAD)
    both = sft.sft_batch(HAND, PAD)
    alone = sft.answer_logprobs(net, *one)
    assert torch.allclose(sft.answer_logprobs(net, *both)[1, :1], alone[0, :1], atol=1e-6)


def test_micro_batches_change_memory_and_not_the_gradient():
    data = examples(16)
    results = []
    for micro in (None, 120):
        net = model(seed=4)
        config = sft.SFTConfig(steps=2, batch_size=16, micro_tokens=micro)
        history = sft.SFTTrainer(net, data, config, pad_id=PAD, generator=generator()).run(
            progress=False
        )
        results.append((history[-1]["loss"], net.state_dict()))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    for name, whole in results[0][1].items():
        assert torch.allclose(whole, results[1][1][name], atol=2e-4), name


def test_masking_the_prompt_keeps_its_gradient_out():
    """A prompt that is masked out has no say: the gradient of its last-layer targets is 0."""
    example = Example((1, 3, 50, 60, 70), (8, 2))
    gradients = {}
    for masked in (True, False):
        net = copy.deepcopy(model(seed=2))
        logits = []

        def keep(module, args, output, logits=logits):
            output.retain_grad()
            logits.append(output)

        net.lm_head.register_forward_hook(keep)
        sft.sft_loss(net, *sft.sft_batch([example], PAD, mask_prompt=masked)).backward()
        gradients[masked] = logits[0].grad[0].abs().sum(-1)
    assert (gradients[True][:4] == 0).all() and (gradients[True][4:6] > 0).all()
    assert (gradients[False][:6] > 0).all()


def test_it_learns_and_the_seed_decides():
    data = examples(64)
    losses = []
    for seed in (0, 0, 1):
        net = model(seed=1)
        config = sft.SFTConfig(steps=25, batch_size=16, learning_rate=1e-2, warmup=2)
        history = sft.SFTTrainer(net, data, config, pad_id=PAD, generator=generator(seed)).run(
            progress=False
        )
        losses.append([step["loss"] for step in history])
    assert losses[0] == losses[1] != losses[2]
    assert losses[0][-1] < losses[0][0] - 1.0


def test_faulty_input_is_named():
    with pytest.raises(ValueError, match="empty list"):
        sft.sft_batch([], PAD)
    with pytest.raises(ValueError, match="answer without ids"):
        sft.sft_batch([Example((1,), ())], PAD)
    with pytest.raises(ValueError, match="steps"):
        sft.SFTConfig(steps=0)
    net = model()
    with torch.no_grad():
        net.model.norm.weight.fill_(float("nan"))
    with (
        pytest.warns(UserWarning, match="not finite"),
        pytest.raises(RuntimeError, match="3 steps in a row"),
    ):
        sft.SFTTrainer(net, HAND, sft.SFTConfig(steps=5), pad_id=PAD, generator=generator()).run(
            progress=False
        )
