"""The language world: words, questions, the grammar, the hidden judge, pairs."""

import math
from collections import Counter

import pytest

from nbkit.envs.helpful import (
    HelpfulVocabulary,
    Pair,
    Question,
    all_questions,
    demonstrations,
    draw_questions,
    encode_demonstrations,
    encode_pairs,
    gold,
    gold_parts,
    gold_reward,
    policy_sampler,
    preference_pairs,
    preference_probability,
)
from nbkit.envs.helpful.demonstrations import LONGEST_ANSWER
from nbkit.trainers.scoring import Completion
from tests.rlhf.small import VOCABULARY, model

pytestmark = pytest.mark.chapter(21)
BREAD = Question("bake bread")


def test_every_word_survives_encoding_and_decoding():
    words = " ".join(VOCABULARY.tokens[3:])
    assert VOCABULARY.decode(VOCABULARY.encode(words)) == words
    assert VOCABULARY.decode([1, 20, 2, 21]) == VOCABULARY.tokens[20]


def test_an_unknown_word_is_named():
    with pytest.raises(ValueError, match="zebra"):
        VOCABULARY.encode("mix the zebra")


def test_the_tokenizer_is_the_same_vocabulary():
    tokenizer = VOCABULARY.tokenizer()
    text = f"{BREAD.prompt} mix the flour . <eos>"
    assert tokenizer.encode(text, add_special_tokens=False) == VOCABULARY.encode(text)
    assert tokenizer.decode(VOCABULARY.encode("mix the flour .")) == "mix the flour ."
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 0)


def test_the_prompt_is_what_the_chat_template_renders():
    tokenizer = VOCABULARY.tokenizer()
    for question in all_questions():
        text = tokenizer.apply_chat_template(
            question.messages, add_generation_prompt=True, tokenize=False
        )
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == VOCABULARY.encode(question.prompt)


def test_the_sides_are_apart_and_complete():
    kept, held = all_questions(False), all_questions(True)
    assert len(kept) == 40 and len(held) == 8
    assert not set(kept) & set(held) and {*kept, *held} == set(all_questions())
    assert set(draw_questions(500, seed=1)) <= set(kept)


def test_demonstrations_keep_to_the_grammar():
    rows = demonstrations(400, seed=1)
    for row in rows:
        parts = gold_parts(row.question, row.answer)
        assert parts["form"] == 0 and parts["ending"] == 0, row.answer
        assert len(row.answer.split()) <= LONGEST_ANSWER
    assert rows == demonstrations(400, seed=1) != demonstrations(400, seed=2)
    assert len({row.answer for row in rows}) > 380


# By hand: three steps of bread 2.5 (1 - 0.7^3) = 1.6425; one warm word 0.6; 15 words, 18 wanted.
GOOD = "gladly , mix the flour , then heat the oven and knead the dough ."


def test_gold_by_hand():
    assert len(GOOD.split()) == 15
    assert gold(BREAD, GOOD) == pytest.approx(1.6425 + 0.6)
    wrong = "mix the flour , then boil the water and boil the water ."
    # one right step .75; two nouns of tea; two words said again; 13 words, 5 off
    assert gold(BREAD, wrong) == pytest.approx(0.75 - 1.0 - 0.8 - 0.08)
    assert gold(BREAD, "mix flour .") == pytest.approx(-0.3 - 0.08 * 11)
    assert gold(BREAD, "", truncated=True) == pytest.approx(-1.0 - 0.08 * 14)
    warm = [gold_parts(BREAD, "enjoy " * n)["warmth"] for n in range(7)]
    assert warm == pytest.approx([0, 0.6, 0.8, 0.6, 0, -0.8, -1.6])


@pytest.mark.parametrize(
    ("change", "part", "sign"),
    [
        (lambda a: a + " enjoy . gladly friend dear friend .", "warmth", -1),
        (lambda a: a.replace("mix", "maybe mix"), "hedges", -1),
        (lambda a: a.replace("heat the oven", "boil the water"), "wrong", -1),
        (lambda a: a.replace("heat the oven", "mix the flour"), "repeats", -1),
        (lambda a: a.replace("the flour", "flour the"), "form", -1),
        (lambda a: a[:-1] + "and add the yeast .", "steps", 1),
    ],
)
def test_each_part_answers_to_its_own_fault(change, part, sign):
    before, after = gold_parts(BREAD, GOOD), gold_parts(BREAD, change(GOOD))
    assert sign * (after[part] - before[part]) > 0.1


def test_the_manner_moves_the_wanted_length():
    manners = ("", "briefly", "in detail")
    lengths = [gold_parts(Question("bake bread", m), GOOD)["length"] for m in manners]
    assert lengths == pytest.approx([0, 0, -0.08 * 6])


def test_gold_as_a_reward_function_sees_the_cut():
    whole, cut = Completion(GOOD, 16, False), Completion(GOOD, 16, True)
    assert gold_reward([BREAD, BREAD], [whole, cut]) == pytest.approx([2.2425, 1.2425])


def test_the_preference_probability_is_bradley_terry():
    assert preference_probability(1.0, 0.0) == pytest.approx(1 / (1 + math.exp(-1.0)))
    assert preference_probability(0.5, 2.0, beta=2.0) == pytest.approx(1 / (1 + math.exp(3.0)))
    assert preference_probability(1e4, -1e4) == 1.0


def test_labels_are_as_noisy_as_bradley_terry_says():
    pairs = preference_pairs(3000, seed=5, beta=1.0)
    expected = sum(
        max(p, 1 - p)
        for p in (preference_probability(q.gold_chosen, q.gold_rejected) for q in pairs)
    )
    right = sum(pair.gold_chosen > pair.gold_rejected for pair in pairs)
    right += sum(pair.gold_chosen == pair.gold_rejected for pair in pairs) / 2
    assert abs(right - expected) < 4 * math.sqrt(3000) / 2
    assert all(pair.chosen != pair.rejected for pair in pairs)
    assert pairs[:50] == preference_pairs(3000, seed=5, beta=1.0)[:50]


def test_pairs_that_never_differ_are_refused():
    with pytest.raises(ValueError, match="only 0 of 4"):
        preference_pairs(4, seed=0, sampler=lambda questions, seed: [GOOD] * len(questions))


def test_a_policy_that_never_ends_is_named():
    sample = policy_sampler(model(), HelpfulVocabulary(), max_new_tokens=2, rounds=2)
    with pytest.raises(RuntimeError, match="met the limit of 2 tokens 2 times"):
        sample(all_questions(), 0)


def test_the_policy_sampler_returns_whole_answers():
    ends_often = model(seed=1)
    sample = policy_sampler(ends_often, VOCABULARY, max_new_tokens=600, rounds=3)
    answers = sample(all_questions(True), 3)
    assert len(answers) == 8 and answers == sample(all_questions(True), 3)


def test_encoded_answers_end_with_eos():
    demonstration = demonstrations(1, seed=9)[0]
    (example,) = encode_demonstrations([demonstration], VOCABULARY)
    assert VOCABULARY.decode(example.answer_ids) == demonstration.answer
    assert example.answer_ids.count(2) == 1 and example.answer_ids[-1] == 2
    assert example.prompt_ids.count(1) == 1 and example.prompt_ids[0] == 1
    pair = Pair(BREAD, GOOD, "mix the flour .", 2.0, 1.0)
    (encoded,) = encode_pairs([pair], VOCABULARY)
    assert VOCABULARY.decode(encoded.rejected_ids) == "mix the flour ."
    assert pair.preference(3).row == 3


def test_topics_and_manners_are_equally_frequent():
    drawn = draw_questions(4000, seed=2, held_out=None)
    counts = Counter(question.topic for question in drawn)
    assert max(counts.values()) < 1.3 * min(counts.values())
