"""Online DPO: which answers make a pair, what is computed of them, and whether it learns."""

import copy

import pytest
import torch

from nbkit.data.encode import EncodedPair
from nbkit.trainers.dpo import DPOConfig, OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.dpo.batch import pair_batch, pair_scores
from nbkit.trainers.dpo.loss import dpo_loss
from nbkit.trainers.dpo.online import best_and_worst
from nbkit.trainers.grpo.batch import GroupBatch
from tests.rlvr.small import PROBLEMS, VOCABULARY, generator, model
from tests.rlvr.small import config as sampling

pytestmark = pytest.mark.chapter(22)


def letters(_, completions):
    """A reward for different letters."""
    return [float(len(set(one.text))) for one in completions]


def trainer(reward=letters, *, reference=None, dpo=None, **changes):
    changes = {"updates": 40, "prompts": 8, "group_size": 2, "max_new_tokens": 8} | changes
    settings = OnlineDPOConfig(
        sampling(**changes), dpo or DPOConfig(beta=0.05, learning_rate=1e-2, warmup=0)
    )
    policy = model(layers=2)
    return OnlineDPOTrainer(
        policy, VOCABULARY, PROBLEMS, reward, settings,
        reference=reference or copy.deepcopy(policy), generator=generator(3),
    )  # fmt: skip


def rewarded(rewards, valid=None):
    """A batch of which the rewards alone are read."""
    values = torch.tensor(rewards)
    there = torch.ones_like(values, dtype=torch.bool) if valid is None else torch.tensor(valid)
    empty = torch.zeros(len(rewards), 1)
    return GroupBatch(
        ids=empty, attention=empty, mask=empty, logprobs=empty, rewards=values,
        raw_rewards=values, valid=there, truncated=there, advantages=empty,
    )  # fmt: skip


def test_pairs_by_hand():
    """Groups of three: the middle one is in no pair, equal rewards and a lone answer make none."""
    batch = rewarded(
        [1.0, 3.0, 2.0, 0.5, 0.5, 0.5, 0.0, -1.0, 9.0, 5.0, 0.0, 0.0],
        [True] * 8 + [False] + [True, False, False],
    )
    chosen, rejected = best_and_worst(batch, 3)
    assert chosen.tolist() == [1, 6] and rejected.tolist() == [0, 7]


def test_the_loss_is_that_of_its_pairs_one_at_a_time():
    """Left padding, the whole batch's padding and the order of the rows change nothing."""
    run = trainer(reference=model(layers=2, seed=9))
    before = copy.deepcopy(run.model)
    found = run.step()
    batch, size = run.batch, run.batch.mask.shape[1]
    losses = []
    for good, bad in zip(*best_and_worst(batch, 2), strict=True):
        answers = [batch.ids[row, -size:][batch.mask[row]].tolist() for row in (good, bad)]
        prompt = batch.ids[good, :-size][batch.attention[good, :-size]].tolist()
        assert batch.rewards[good] > batch.rewards[bad]
        one = pair_batch([EncodedPair(prompt, *answers)], VOCABULARY.pad_id)
        with torch.no_grad():
            scores = pair_scores(before, one), pair_scores(run.reference, one)
        losses.append(dpo_loss(*scores, run.config.dpo).item())
    assert found["pairs"] == len(losses) > 3
    assert found["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_it_learns():
    run = trainer()
    history = run.run(progress=False)
    first, last = (sum(h["reward"] for h in part) / 5 for part in (history[:5], history[-5:]))
    assert last > first + 1.0
    assert run.samples(2)[0].text


def test_rewards_that_never_differ_teach_nothing_and_are_counted():
    run = trainer(lambda _, made: [1.0] * len(made), updates=2)
    before = copy.deepcopy(run.model.state_dict())
    with pytest.warns(UserWarning, match="no signal|silent|differ"):
        history = run.run(progress=False)
    assert [h["silent_steps"] for h in history] == [1.0, 2.0]
    assert all(torch.equal(before[k], v) for k, v in run.model.state_dict().items())


def test_what_cannot_work_is_refused():
    policy = model(layers=2)
    with pytest.raises(ValueError, match="a model of its own"):
        OnlineDPOTrainer(
            policy, VOCABULARY, PROBLEMS, letters, OnlineDPOConfig(),
            reference=policy, generator=generator(),
        )  # fmt: skip
    with pytest.raises(ValueError, match=r"sampling\.group_size"):
        OnlineDPOConfig(sampling(group_size=1, advantage="return"))
