import pytest
import torch

from nbkit.logprobs import token_logprobs
from nbkit.rewards.text import contains_keyword
from nbkit.text.environment import TextEnv
from nbkit.text.policies import TransformerPolicy, make_policy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import TokenizerVocabulary
from tests.text.conftest import generator

pytestmark = pytest.mark.chapter(11)


@torch.no_grad()
def test_step_by_step_logits_equal_one_pass(policy, vocabulary):
    ids = torch.randint(len(vocabulary), (3, 9), generator=generator())
    state, stepped = None, []
    for t in range(ids.shape[1]):
        logits, state = policy.step(ids[:, t], state)
        stepped.append(logits)
    torch.testing.assert_close(torch.stack(stepped, 1), policy(ids), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_logits_never_look_ahead(policy, vocabulary):
    ids = torch.randint(len(vocabulary), (2, 8), generator=generator(1))
    changed = ids.clone()
    changed[:, 5:] = 3
    torch.testing.assert_close(policy(ids)[:, :5], policy(changed)[:, :5])
    assert not torch.allclose(policy(ids)[:, 5:], policy(changed)[:, 5:])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_rollout_logprobs_are_those_of_the_distribution_sampled_from(
    policy, vocabulary, temperature
):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=12)
    batch = rollout(policy, env, 16, generator=generator(2), temperature=temperature)
    with torch.no_grad():
        again = token_logprobs(policy(batch.ids[:, :-1]), batch.tokens, temperature=temperature)
    torch.testing.assert_close(batch.logprobs[batch.mask], again[batch.mask], atol=1e-5, rtol=1e-4)
    assert (batch.logprobs[~batch.mask] == 0).all()


def test_rollout_masks_rewards_and_texts_agree(policy, vocabulary):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=30)
    batch = rollout(policy, env, 32, generator=generator(3))
    ends = batch.tokens == vocabulary.eos_id
    for row in range(32):
        length = int(batch.lengths[row])
        assert batch.mask[row].tolist() == [t < length for t in range(batch.mask.shape[1])]
        assert bool(ends[row, length - 1]) != bool(batch.truncated[row])
        assert batch.rewards[row].nonzero().tolist() == [[length - 1]]
    wanted = [1.0 if "a" in text else -1.0 for text in batch.texts(env)]
    assert batch.returns.tolist() == wanted


def test_same_generator_same_texts_another_seed_other_texts(policy, vocabulary):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=10)
    first = rollout(policy, env, 8, generator=generator(4)).ids
    assert torch.equal(first, rollout(policy, env, 8, generator=generator(4)).ids)
    assert not torch.equal(first, rollout(policy, env, 8, generator=generator(5)).ids)


def test_sampling_frequencies_match_the_policy(vocabulary):
    policy = make_policy("lstm", len(vocabulary), width=8)
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=1)
    with torch.no_grad():
        probabilities = policy.step(torch.tensor([vocabulary.bos_id]))[0][0].softmax(-1)
    first = rollout(policy, env, 20_000, generator=generator(6)).tokens[:, 0]
    frequencies = torch.bincount(first, minlength=len(vocabulary)) / 20_000
    torch.testing.assert_close(frequencies, probabilities, atol=0.012, rtol=0)


def test_bad_settings_are_named(vocabulary):
    with pytest.raises(ValueError, match="kind: 'rnn'"):
        make_policy("rnn", 10)
    with pytest.raises(ValueError, match="heads"):
        make_policy("transformer", 10, width=10, heads=3)
    with pytest.raises(ValueError, match="max_length 4"):
        TransformerPolicy(10, width=8, heads=2, max_length=4)(torch.zeros(1, 5, dtype=torch.long))
    policy = make_policy("lstm", len(vocabulary), width=8)
    with pytest.raises(ValueError, match="temperature"):
        env = TextEnv(vocabulary, contains_keyword("a"))
        rollout(policy, env, 2, generator=generator(), temperature=0)


def test_a_tokenizer_from_disk_serves_as_vocabulary(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<end>": 0, "good": 1, "film": 2}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(tmp_path)
    vocabulary = TokenizerVocabulary(AutoTokenizer.from_pretrained(tmp_path))
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.pad_id) == (0, 0, 0)
    assert vocabulary.encode("good film") == [1, 2]
    assert vocabulary.decode([1, 2, 0, 1]) == "good film" and len(vocabulary) == 3
    with pytest.raises(ValueError, match="eos_token"):
        TokenizerVocabulary(PreTrainedTokenizerFast(tokenizer_object=words))
