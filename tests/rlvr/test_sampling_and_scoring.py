"""Rounds of sampling: what is kept, what is discarded and counted, shaping, and clear errors."""

import math

import pytest
import torch

from nbkit.generate.mismatch import trainer_logprobs
from nbkit.generate.result import Generation
from nbkit.rewards.compose import Composed
from nbkit.trainers.grpo.batch import PromptStream, sample_batch
from nbkit.trainers.scoring import Completion, has_signal, overlong_penalty, score
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(24)


def sample(reward_fn, settings, problems=PROBLEMS, seed=0):
    stream = PromptStream(len(problems), generator(seed))
    return sample_batch(model(), VOCABULARY, problems, stream, reward_fn, settings)


def test_log_probabilities_are_those_of_the_tempered_distribution():
    batch, _ = sample(by_length, config(temperature=0.6))
    width = batch.mask.shape[1]
    parts = {"tokens": batch.ids[:, -width:], "mask": batch.mask, "truncated": batch.truncated}
    prompts = {"prompt_ids": batch.ids[:, :-width], "prompt_mask": batch.attention[:, :-width]}
    made = Generation(**parts, **prompts, logprobs=batch.logprobs)
    again = trainer_logprobs(model(), made, temperature=0.6)
    torch.testing.assert_close(batch.logprobs, again, atol=2e-5, rtol=0)
    plain = trainer_logprobs(model(), made, temperature=1.0)
    assert (batch.logprobs - plain).abs().max() > 0.1


def test_the_sampler_is_released_and_computes_in_the_precision_asked_for():
    from nbkit.generate.engine import _ENGINES

    found = {}
    for name, changes in {
        "kept": {},
        "released": {"release_engine": True},
        "bfloat16": {"sampler_dtype": "bfloat16"},
    }.items():
        body, stream = model(), PromptStream(len(PROBLEMS), generator(0))
        batch, _ = sample_batch(body, VOCABULARY, PROBLEMS, stream, by_length, config(**changes))
        found[name] = batch
        engines = _ENGINES.get(body, {})
        assert (len(engines) == 0) == (name == "released")
        assert all(key[0] is (torch.bfloat16 if name == "bfloat16" else None) for key in engines)
        assert next(body.parameters()).dtype == torch.float32
    assert torch.equal(found["kept"].ids, found["released"].ids)
    one, other = found["kept"], found["bfloat16"]
    rows = (one.ids[:, : other.ids.shape[1]] == other.ids[:, : one.ids.shape[1]]).all(1)
    gap = (one.logprobs[rows] - other.logprobs[rows]).abs().max()
    assert rows.any() and 0 < gap < 0.1
    with pytest.raises(ValueError, match="sampler_dtype"):
        config(sampler_dtype="float16")


def test_dynamic_sampling_asks_until_the_batch_is_full_and_counts_what_it_discards():
    """Only every third group has a signal: twelve groups must be asked for four."""
    seen = []

    def every_third(problems, completions):
        rewards = []
        for start in range(0, len(completions), 4):
            seen.append([c.length for c in completions[start : start + 4]])
            rewards += [1.0, 0.0, 0.0, 0.0] if len(seen) % 3 == 0 else [1.0] * 4
        return rewards

    batch, metrics = sample(every_third, config(dynamic_sampling=True, max_rounds=20))
    assert len(batch) == 16
    assert batch.rewards.view(4, 4).tolist() == [[1.0, 0.0, 0.0, 0.0]] * 4
    kept = [lengths for number, lengths in enumerate(seen, 1) if number % 3 == 0][:4]
    assert batch.mask.sum(1).view(4, 4).tolist() == kept
    assert metrics["tokens"] == sum(map(sum, seen))
    assert metrics["discarded_tokens"] == sum(map(sum, seen)) - sum(map(sum, kept)) > 0
    assert metrics["rounds"] > 1
    silent = sum(number % 3 != 0 for number in range(1, len(seen) + 1))
    assert metrics["silent_groups"] == pytest.approx(silent / len(seen))


def test_without_dynamic_sampling_nothing_is_discarded():
    batch, metrics = sample(lambda p, c: [1.0] * len(c), config())
    assert len(batch) == 16 and metrics["discarded_tokens"] == 0 and metrics["rounds"] == 1
    assert metrics["silent_groups"] == 1.0


def test_dynamic_sampling_gives_up_after_the_last_round():
    settings = config(dynamic_sampling=True, max_rounds=3)
    batch, metrics = sample(lambda p, c: [1.0] * len(c), settings)
    assert len(batch) == 0 and metrics["rounds"] == 3
    assert metrics["discarded_tokens"] == metrics["tokens"] > 0


def test_the_filter_looks_at_rewards_before_shaping():
    settings = config(dynamic_sampling=True, max_rounds=1, overlong_buffer=8)
    batch, _ = sample(lambda p, c: [1.0] * len(c), settings)
    assert len(batch) == 0


def test_overlong_penalty_by_numbers():
    lengths = torch.tensor([1, 16, 17, 18, 19, 20])
    ours = overlong_penalty(lengths, 20, 4)
    assert ours.tolist() == [0.0, 0.0, -0.25, -0.5, -0.75, -1.0]
    assert overlong_penalty(lengths, 20, 4, 2.0)[-1] == -2.0
    assert (overlong_penalty(lengths, 20, 0) == 0).all()


def test_shaping_reaches_the_rewards_and_not_the_metrics():
    batch, metrics = sample(lambda p, c: [1.0] * len(c), config(overlong_buffer=4))
    expected = 1 + overlong_penalty(batch.mask.sum(1), 8, 4)
    torch.testing.assert_close(batch.rewards, expected)
    assert batch.rewards.min() < 1 and metrics["reward"] == 1.0
    assert (batch.raw_rewards == 1).all()


def test_truncated_completions_leave_the_loss_on_request():
    batch, _ = sample(by_length, config(mask_truncated=True))
    assert batch.truncated.any() and not batch.truncated.all()
    assert (batch.mask.any(1) == ~batch.truncated).all()


def test_what_cannot_be_scored_is_dropped_and_counted():
    def some(problems, completions):
        return [None if i % 4 == 0 else float(i % 2) for i in range(len(completions))]

    batch, metrics = sample(some, config())
    assert metrics["unscored"] == 4 and metrics["reward"] == pytest.approx(8 / 12)
    assert batch.valid.tolist() == [i % 4 != 0 for i in range(16)]
    assert not batch.mask[~batch.valid].any() and batch.rewards.isfinite().all()


def test_parts_of_a_reward_are_metrics():
    def composed(problems, completions):
        return [
            Composed(0.1 + (i == 0), {"format": 1.0, "correct": float(i == 0)})
            for i in range(len(completions))
        ]

    _, metrics = sample(composed, config())
    assert metrics["reward/format"] == 1.0 and metrics["reward/correct"] == 1 / 16
    assert metrics["accuracy"] == 1 / 16
    assert metrics["reward"] == pytest.approx(0.1 + 1 / 16)


def test_metrics_of_a_round():
    batch, metrics = sample(by_length, config())
    assert metrics["length"] == pytest.approx(batch.mask.sum(1).double().mean().item())
    assert metrics["tokens"] == batch.mask.sum().item()
    minus_mean = -batch.logprobs.double().sum().item() / batch.mask.sum().item()
    assert metrics["entropy"] == pytest.approx(minus_mean)
    assert metrics["truncated"] == batch.truncated.double().mean().item()
    assert metrics["seconds/generate"] > 0 and metrics["seconds/reward"] > 0


def test_signal_ignores_what_could_not_be_scored():
    rewards = torch.tensor([1.0, 1.0, 0.0, 1.0, math.nan, 1.0, math.nan, math.nan])
    signal = has_signal(rewards, ~rewards.isnan(), 2)
    assert signal.tolist() == [False, True, False, False]


@pytest.mark.parametrize("number", [15, 17])
def test_the_wrong_number_of_rewards(number):
    with pytest.raises(ValueError, match=f"returned {number} rewards for 16 completions"):
        sample(lambda p, c: [0.0] * number, config())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rewards_that_are_not_finite(bad):
    with pytest.raises(ValueError, match="must be finite"):
        score(lambda p, c: [bad], PROBLEMS[:1], [Completion("12", 2, False)])
    with pytest.raises(ValueError, match="must be finite"):
        score(lambda p, c: [Composed(bad, {})], PROBLEMS[:1], [Completion("12", 2, False)])


def test_a_failing_verifier_is_heard():
    def broken(problems, completions):
        raise OSError("the verifier is gone")

    with pytest.raises(OSError, match="gone"):
        sample(broken, config())


def test_reward_function_sees_each_problem_beside_its_completions():
    asked = []
    sample(lambda p, c: asked.extend(p) or [0.0] * len(c), config())
    assert len(asked) == 16
    assert all(len(set(asked[i : i + 4])) == 1 for i in range(0, 16, 4))
    assert len(set(asked)) == 4


def test_prompts_come_once_an_epoch_in_a_new_order():
    stream = PromptStream(10, generator(1))
    first = stream.take(4) + stream.take(6)
    second = stream.take(10)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    with pytest.raises(ValueError, match="problems"):
        PromptStream(0, generator())


def test_groups_beyond_a_full_batch_are_discarded():
    """Eight are wanted, seven of the first eight have a signal; the next round asks for two."""
    groups = []

    def all_but_the_first(problems, completions):
        rewards = []
        for _ in range(0, len(completions), 4):
            groups.append(len(groups))
            rewards += [1.0] * 4 if len(groups) == 1 else [1.0, 0.0, 0.0, 0.0]
        return rewards

    batch, metrics = sample(all_but_the_first, config(prompts=8, dynamic_sampling=True))
    assert len(groups) == 10 and len(batch) == 8 * 4 and metrics["rounds"] == 2
    assert metrics["tokens"] - metrics["discarded_tokens"] == batch.mask.sum().item()
