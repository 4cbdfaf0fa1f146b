import random

import pytest
import torch

from nbkit.envs.reviews import ALPHABET, review, reviews
from nbkit.rewards.text import contains_keyword, keyword_per_step
from nbkit.text.environment import TextEnv
from nbkit.text.vocabulary import CharVocabulary, encode_batch

pytestmark = pytest.mark.chapter(11)


def play(env, rows):
    """Feed fixed rows of ids, one column a step; return the steps."""
    env.reset(len(rows))
    return [env.step(torch.tensor(column)) for column in zip(*rows, strict=True)]


def test_terminal_reward_comes_once_with_the_token_that_ends_the_episode(vocabulary):
    env = TextEnv(vocabulary, contains_keyword("ab"), max_new_tokens=4)
    a, b = vocabulary.encode("ab")
    eos = vocabulary.eos_id
    steps = play(env, [[a, b, eos, a], [b, a, b, a], [eos, a, b, eos]])
    rewards = torch.stack([step.rewards for step in steps], 1)
    assert rewards.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [-1, 0, 0, 0]]
    assert steps[-1].terminated.tolist() == [True, False, True]
    assert steps[-1].truncated.tolist() == [False, True, False]


def test_tokens_after_the_end_become_padding_whatever_the_policy_says(vocabulary):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=3)
    a = vocabulary.encode("a")[0]
    steps = play(env, [[vocabulary.eos_id, a, a], [a, a, a]])
    assert steps[-1].state[0].tolist() == [vocabulary.bos_id, vocabulary.eos_id, 0, 0]


def test_eos_at_the_limit_is_an_end_and_not_a_truncation(vocabulary):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=2)
    a = vocabulary.encode("a")[0]
    last = play(env, [[a, vocabulary.eos_id]])[-1]
    assert last.terminated.item() and not last.truncated.item() and last.rewards.item() == 1


def test_an_eos_that_is_also_the_padding_ends_the_episode_once():
    class OneSpecialToken(CharVocabulary):
        pad_id = bos_id = eos_id = 0

    vocabulary = OneSpecialToken("ab")
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=3)
    a = vocabulary.encode("a")[0]
    steps = play(env, [[a, 0, 0], [a, a, a]])
    assert torch.stack([step.rewards for step in steps], 1).tolist() == [[0, 1, 0], [0, 0, 1]]
    _, mask = encode_batch(vocabulary, ["ab", "a"])
    assert mask.tolist() == [[True, True, True], [True, True, False]]


def test_step_reward_sees_the_text_before_and_after(vocabulary):
    env = TextEnv(vocabulary, step_reward=keyword_per_step("ab", token_cost=0.5), max_new_tokens=4)
    a, b = vocabulary.encode("ab")
    steps = play(env, [[a, b, a, vocabulary.eos_id]])
    assert [step.rewards.item() for step in steps] == [0, 1, -0.5, -0.5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda v: TextEnv(v), "terminal_reward, step_reward"),
        (lambda v: TextEnv(v, len, max_new_tokens=0), "max_new_tokens"),
        (lambda v: v.encode("É"), "text"),
        (lambda v: encode_batch(v, []), "texts"),
        (lambda v: CharVocabulary(""), "characters"),
        (lambda v: reviews(0, seed=1), "count"),
        (lambda v: reviews(1, seed=1, max_characters=5), "max_characters"),
        (lambda v: contains_keyword(""), "keyword"),
    ],
)
def test_bad_input_names_the_argument(vocabulary, make, message):
    with pytest.raises(ValueError, match=message):
        make(vocabulary)


def test_wrong_shape_of_actions_and_steps_out_of_turn(vocabulary):
    env = TextEnv(vocabulary, contains_keyword("a"), max_new_tokens=1)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(torch.tensor([3]))
    env.reset(2)
    with pytest.raises(ValueError, match=r"actions: shape \(2, 1\)"):
        env.step(torch.tensor([[3], [3]]))
    env.step(torch.tensor([3, 3]))
    with pytest.raises(RuntimeError, match="over"):
        env.step(torch.tensor([3, 3]))


def test_reviews_are_reproducible_short_and_inside_the_alphabet():
    texts = reviews(500, seed=3)
    assert texts == reviews(500, seed=3) != reviews(500, seed=4)
    assert max(map(len, texts)) <= 39 and set("".join(texts)) <= set(ALPHABET)
    assert all(text.endswith(".") for text in texts)
    assert review(random.Random(0)) == review(random.Random(0))


def test_char_vocabulary_round_trip(vocabulary):
    text = "a great, great film."
    ids = vocabulary.encode(text)
    assert vocabulary.decode([1, *ids, 2, *ids]) == text
    assert len(vocabulary) == len(set(ALPHABET)) + 3
