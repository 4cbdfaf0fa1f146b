"""Samples of trainings on examples and pairs, which sample nothing by themselves, and of PPO."""

import json

import pytest
import torch

from nbkit.data.encode import Example
from nbkit.generate import generate
from nbkit.rewards.compose import Composed
from nbkit.runs.run import Run
from nbkit.runs.samples import read_samples
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.samples import answers, prompt_text
from nbkit.trainers.sft import SFTConfig, SFTTrainer
from tests.rlhf.small import PAD, VOCABULARY, examples, generator, model

pytestmark = pytest.mark.chapter(21)
QUESTIONS = examples(8)


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


def sft(folder, **given):
    settings = SFTConfig(steps=4, batch_size=4, learning_rate=1e-2, warmup=0)
    one = SFTTrainer(model(), examples(), settings, pad_id=PAD, generator=generator(3))
    if given.get("samples"):
        asked = [Example(q.prompt_ids, ()) for q in QUESTIONS[:2]]
        given["samples"] = answers(one.parallel, VOCABULARY, asked, max_new_tokens=6)
    with Run.start({}, seeds=(0,), folder=folder) as run:
        one.fit(run, save_every=0, **given)
        run.finish({})
    return one


def test_what_a_model_answers_while_it_learns_from_examples(tmp_path):
    one = sft(tmp_path / "a", samples=True, samples_every=2)
    found = read_samples(tmp_path / "a" / "samples.jsonl")
    assert [step for step, _ in found] == [1, 1, 2, 2, 4, 4]
    made = generate(
        one.parallel.model,
        [q.prompt_ids for q in QUESTIONS[:2]],
        max_new_tokens=6, temperature=0.0, eos_ids=VOCABULARY.eos_id, pad_id=PAD, seeds=0,
    )  # fmt: skip
    last = [sample for step, sample in found if step == 4]
    assert [sample.text for sample in last] == [VOCABULARY.decode(row) for row in made.lists()]
    assert last[0].prompt == VOCABULARY.decode(QUESTIONS[0].prompt_ids)
    assert last[0].reward is None and last[0].advantage is None
    without = sft(tmp_path / "b")
    assert without.history == one.history  # asking draws nothing
    assert not (tmp_path / "b" / "samples.jsonl").exists()


def test_a_prompt_that_is_ids_is_shown_whole():
    """A chat's turns end in an EOS; ``decode`` alone would stop at the first."""
    ids = QUESTIONS[0].prompt_ids
    twice = Example((*ids, VOCABULARY.eos_id, *ids), ())
    words = VOCABULARY.decode(ids)
    assert prompt_text(twice, VOCABULARY) == f"{words}\n{words}" and words


def ppo(reward_fn, **changes):
    settings = RLHFConfig(updates=2, prompts=6, max_new_tokens=7, **changes)
    return RLHFTrainer(
        model(), VOCABULARY, QUESTIONS, reward_fn, settings, reference=model(7),
        value=ScalarModel.from_causal(model(1), head="random", seed=5), generator=generator(),
    )  # fmt: skip


def test_samples_of_ppo_with_the_parts_of_their_reward(tmp_path):
    one = ppo(lambda _, done: [Composed(len(c.text) / 2, {"half": len(c.text) / 2}) for c in done])
    with Run.start({}, seeds=(0,), folder=tmp_path) as run:
        one.fit(run, save_every=0)
        run.finish({})
    found = read_samples(tmp_path / "samples.jsonl")
    assert [step for step, _ in found] == [1] * 4 + [2] * 4
    last = [sample for step, sample in found if step == 2]
    texts = [completion.text for completion in one.completions]
    assert [sample.text for sample in last] == [texts[row] for row in (0, 1, 3, 5)]
    assert all(sample.reward == sample.parts["half"] for sample in last)
    assert last[0].advantage == pytest.approx(
        one.batch.advantages[0][one.batch.mask[0]].mean().item(), rel=1e-5
    )
    assert [row["silent_steps"] for row in one.history] == [0, 0]


def test_ppo_tells_of_equal_rewards():
    one = ppo(lambda _, done: [0.5] * len(done))
    with pytest.warns(UserWarning, match="no two rewards that differ; reward 0.5") as told:
        one.run(progress=False)
    assert [row["silent_steps"] for row in one.history] == [1, 2]
    assert len(told) == 3  # the first batch, and the silence after 1 and 2 steps


@pytest.mark.parametrize("which", ["policy", "value"])
def test_a_bad_batch_of_ppo_moves_nothing_that_is_not_finite(which, tmp_path):
    one = ppo(lambda _, done: [float(c.length) for c in done], kl_target=1.0)
    part, spoil = one.learners[which], [True]

    def once(module, inputs, output):
        if spoil[0] and torch.is_grad_enabled():
            return torch.nan * output if isinstance(output, torch.Tensor) else nan(output)
        return output

    def nan(output):
        output.logits = output.logits * torch.nan
        return output

    part.model.register_forward_hook(once)
    row = one.step()
    assert row["skipped"] == 4 and row["steps"] == 0  # 2 epochs of 2 minibatches
    assert one.refused["ids"].shape[0] == 6
    torch.save(one.refused, tmp_path / "batch.pt")
    assert torch.load(tmp_path / "batch.pt", weights_only=True)["skipped"] == 4
    spoil[0] = False
    assert one.step()["steps"] == 4
    for learner in one.learners.values():
        assert all(p.isfinite().all() for p in learner.model.parameters())
    json.dumps(one.history)
