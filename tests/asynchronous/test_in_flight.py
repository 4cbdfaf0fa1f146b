"""New weights between two decode steps: who drew each token, and under which probabilities."""

import copy

import pytest
import torch

from nbkit.asynchronous.groups import split, staleness
from nbkit.asynchronous.sampler import Sampler
from nbkit.generate import clear
from nbkit.generate.sampling import row_seeds
from nbkit.text.protocols import prompt_ids
from nbkit.trainers.sampling import sample
from tests.rlvr.small import PROBLEMS, VOCABULARY, config, model

pytestmark = pytest.mark.chapter(35)
ASKED, SWITCH_AT = PROBLEMS[:3], 5
CONFIG = config(max_new_tokens=12)
ROWS = len(ASKED) * CONFIG.group_size
SEEDS = row_seeds(11, ROWS, "cpu")


def weights_into(net, source):
    with torch.no_grad():
        for mine, other in zip(net.parameters(), source.parameters(), strict=True):
            mine.copy_(other)


def flown(moments, cache="keep", seed=0):
    """Sample with weights of seed 0, then 1, 2, …, changed before the decode steps `moments`."""
    net = model(seed=seed)
    sampler = Sampler(net, VOCABULARY, CONFIG, cache=cache)
    step, version = -1, 0

    def switch():
        nonlocal step, version
        step += 1
        if step not in moments:
            return None
        version += 1
        weights_into(net, model(seed=version))
        sampler.reload()
        return version

    made, versions = sampler.sample(ASKED, SEEDS, 0, switch)
    assert sampler.switches == len(moments)
    sampler.sleep()
    return made, versions


def test_without_a_switch_it_is_the_synchronous_sampler_to_the_bit():
    net = model()
    plain = sample(net, VOCABULARY, ASKED, CONFIG, SEEDS)
    clear(net)
    made, versions = flown(())
    for name in ("tokens", "mask", "logprobs", "truncated", "prompt_ids", "prompt_mask"):
        assert torch.equal(getattr(plain, name), getattr(made, name)), name
    assert torch.equal(versions, torch.where(made.mask, 0, -1))


@pytest.mark.parametrize("cache", ["keep", "recompute"])
def test_each_token_is_noted_with_the_weights_that_drew_it(cache):
    made, versions = flown((3, SWITCH_AT), cache)
    places = torch.arange(made.mask.shape[1]).expand_as(versions)
    expected = (places >= 3).long() + (places >= SWITCH_AT).long()
    assert torch.equal(versions, torch.where(made.mask, expected, -1))
    assert {0, 1, 2} <= set(versions.unique().tolist())


def test_what_was_drawn_before_the_switch_stays():
    plain, _ = flown(())
    made, _ = flown((SWITCH_AT,))
    width = SWITCH_AT
    assert torch.equal(plain.tokens[:, :width], made.tokens[:, :width])
    assert torch.equal(plain.logprobs[:, :width], made.logprobs[:, :width])
    assert plain.lists() != made.lists()


@pytest.mark.parametrize("cache", ["keep", "recompute"])
def test_log_probabilities_are_those_under_which_the_tokens_were_drawn(cache):
    """Transformers' own forward passes: the old cache goes on under the new weights, or not."""
    made, versions = flown((SWITCH_AT,), cache)
    before, after = model(seed=0), model(seed=1)
    compared = 0
    for row, tokens in enumerate(made.lists()):
        prompt = prompt_ids(ASKED[row // CONFIG.group_size], VOCABULARY)
        drawn_after = [t for t in range(len(tokens)) if versions[row, t] == 1]
        if not drawn_after:
            continue
        cut = len(prompt) + SWITCH_AT - 1
        ids = torch.tensor([[*prompt, *tokens]])
        reader = before if cache == "keep" else after
        with torch.no_grad():
            past = reader(ids[:, :cut], use_cache=True).past_key_values
            logits = after(ids[:, cut:], past_key_values=past, use_cache=True).logits[0]
        expected = logits.log_softmax(-1)
        for t in drawn_after:
            wanted = expected[t - SWITCH_AT, tokens[t]]
            torch.testing.assert_close(made.logprobs[row, t], wanted, atol=2e-4, rtol=1e-4)
            compared += 1
    assert compared >= 10


def test_the_two_treatments_of_the_cache_differ():
    kept, read = flown((SWITCH_AT,), "keep")[0], flown((SWITCH_AT,), "recompute")[0]
    t = SWITCH_AT
    both = kept.mask[:, t] & read.mask[:, t]
    same = both & (kept.tokens[:, t] == read.tokens[:, t])
    assert same.any()
    assert (kept.logprobs[same, t] - read.logprobs[same, t]).abs().max() > 1e-3


def test_equal_weights_change_nothing_but_the_version():
    net = model()
    other = copy.deepcopy(net)
    sampler = Sampler(net, VOCABULARY, CONFIG)
    calls = iter(range(1000))

    def switch():
        if next(calls) != 2:
            return None
        weights_into(net, other)
        sampler.reload()
        return 7

    made, versions = sampler.sample(ASKED, SEEDS, 4, switch)
    plain, _ = flown(())
    assert torch.equal(made.tokens, plain.tokens) and torch.equal(made.logprobs, plain.logprobs)
    assert set(versions[made.mask].tolist()) == {4, 7}


def test_a_second_call_begins_without_notes_of_the_first():
    net = model()
    sampler = Sampler(net, VOCABULARY, CONFIG)
    sampler.sample(ASKED, SEEDS, 3)
    made, versions = sampler.sample(ASKED, SEEDS, 5)
    assert set(versions[made.mask].tolist()) == {5}


def test_groups_are_cut_out_of_a_call_without_a_loss():
    made, versions = flown((SWITCH_AT,))
    size = CONFIG.group_size
    for number, (group, own) in enumerate(split(made, versions, size)):
        rows = slice(number * size, (number + 1) * size)
        assert group.lists() == made.lists()[rows]
        width, before = group.mask.shape[1], group.prompt_mask.shape[1]
        assert int(group.lengths.max()) == width and int(group.prompt_mask.sum(1).max()) == before
        assert torch.equal(own, versions[rows, :width])
        assert torch.equal(group.prompt_ids, made.prompt_ids[rows, -before:])
        assert group.tokens.untyped_storage().nbytes() == group.tokens.numel() * 8


def test_staleness_counts_tokens_and_kinds_count_completions():
    versions = torch.tensor([[0, 0, 2, -1], [3, -1, -1, -1]])
    assert staleness(versions, 3) == {
        "staleness/mean": (3 + 3 + 1 + 0) / 4,
        "staleness/max": 3.0,
        "versions_in_completion": 1.5,
        "versions_in_completion/max": 2.0,
    }


def test_an_unknown_treatment_of_the_cache_is_named():
    with pytest.raises(ValueError, match=r"^cache must be one of"):
        Sampler(model(), VOCABULARY, CONFIG, cache="forget")
