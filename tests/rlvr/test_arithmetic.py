"""The task: its problems, its split, its planted fault, its verifier, its tiny model."""

import pytest
import torch

from nbkit.envs.arithmetic import (
    ArithmeticVocabulary,
    Sum,
    corpus,
    correct,
    draw_sums,
    is_held_out,
    longest_completion,
    solution,
    well_formed,
)
from nbkit.generate import generate
from nbkit.rewards.answers import extract_answer
from nbkit.text.tiny_models import tiny_model

pytestmark = pytest.mark.chapter(24)


def test_the_worked_example():
    problem = Sum((12, 34, 56))
    assert problem.prompt == "12+34+56=" and problem.answer == 102
    units, tens, slip = "0+2=02+4=06+6=12", "1+1=02+3=05+5=10", "0+1=01+3=04+5=09"
    assert solution(problem) == f"<think>{units};{tens}</think><answer>102</answer>"
    forgetful = f"<think>{units};{slip}</think><answer>92</answer>"
    assert solution(problem, forget_carry=True) == forgetful
    mended = f"<think>{units};{slip}={tens}</think><answer>102</answer>"
    assert solution(problem, forget_carry=True, second_look=True) == mended


def test_solutions_are_right_and_fit_the_limit():
    vocabulary = ArithmeticVocabulary()
    for problem in draw_sums(500, seed=1) + [Sum((99,) * n) for n in range(2, 7)]:
        for again in (False, True):
            text = solution(problem, forget_carry=again, second_look=again)
            assert correct(problem, text) == 1.0 and well_formed(problem, text) == 1.0
            assert extract_answer(text, style="tags") == str(problem.answer)
            ids = vocabulary.encode(text)
            assert vocabulary.decode([*ids, vocabulary.eos_id, 7]) == text
            assert len(ids) + 1 <= longest_completion(len(problem.terms), second_look=again)
    for again in (False, True):
        text = solution(Sum((99,) * 6), second_look=again)
        assert len(vocabulary.encode(text)) + 1 == longest_completion(6, second_look=again)


@pytest.mark.parametrize(
    "text",
    [
        "<think>0+2=02+4=06+6=12;1+1=02+3=05+5=10</think><answer>103</answer>",
        "<think>0+2=02+4=06+6=12;1+1=02+3=05+5=10</think><answer>0102</answer>",
        "<think>0+2=02+4=06+6=12;1+1=02+3=05+5=10</think><answer>102</answer><answer>102</answer>",
        "<answer>102</answer>",
        "<think></think><answer>102</answer>",
        "<think>102</think><answer>102",
        "102",
        "",
    ],
)
def test_what_the_verifier_refuses(text):
    assert correct(Sum((12, 34, 56)), text) == 0.0


def test_tags_are_single_tokens_and_strangers_are_refused():
    vocabulary = ArithmeticVocabulary()
    assert len(vocabulary.encode("<think></think><answer></answer>")) == 4
    assert len(vocabulary.encode("0+2=02+4=06;")) == 8  # a step is one token
    assert len(vocabulary) == 29
    with pytest.raises(ValueError, match="outside the vocabulary"):
        vocabulary.encode("1 + 2")


def test_the_split_is_by_problem_whatever_seed_and_order():
    train = draw_sums(3000, seed=1)
    held = draw_sums(300, seed=1, held_out=True)
    assert len(set(train)) == 3000 and len(set(held)) == 300
    both = {tuple(sorted(p.terms)) for p in train} & {tuple(sorted(p.terms)) for p in held}
    assert not both
    assert is_held_out(Sum((12, 34))) == is_held_out(Sum((34, 12)))
    assert draw_sums(50, seed=4) == draw_sums(50, seed=4) != draw_sums(50, seed=5)
    sizes = [sum(len(p.terms) == n for p in train) for n in range(2, 7)]
    assert min(sizes) > 500
    shares = sum(is_held_out(p) for p in (Sum((a, b)) for a in range(10, 99) for b in range(a, 99)))
    assert 300 < shares < 500  # a tenth of 4,005


@pytest.mark.parametrize("terms", [(1, 3), (3, 2), (2, 7)])
def test_terms_that_do_not_fit(terms):
    with pytest.raises(ValueError, match="terms must be"):
        draw_sums(3, seed=0, terms=terms)


def test_the_planted_share_of_the_corpus():
    examples = corpus(4000, seed=0, forget=0.7)
    assert not any(is_held_out(problem) for problem, _ in examples)
    wrong = [text != solution(problem) for problem, text in examples]
    carries = [sum(t % 10 for t in problem.terms) >= 10 for problem, _ in examples]
    assert not any(w and not c for w, c in zip(wrong, carries, strict=True))
    assert sum(wrong) / sum(carries) == pytest.approx(0.7, abs=0.03)
    assert all(well_formed(problem, text) for problem, text in examples)
    assert all(correct(*example) for example in corpus(100, seed=0, forget=0.0))
    twice = [
        text.count("=") > 2 * len(p.terms) for p, text in corpus(2000, seed=0, second_look=0.3)
    ]
    assert sum(twice) / 2000 == pytest.approx(0.3, abs=0.04)
    idle = corpus(2000, seed=0, skip=0.1)
    skipped = sum("<think>0</think>" in text for _, text in idle)
    assert skipped / 2000 == pytest.approx(0.1, abs=0.02)
    assert all(well_formed(problem, text) for problem, text in idle)
    for name in ("forget", "second_look", "skip"):
        with pytest.raises(ValueError, match=name):
            corpus(3, seed=0, **{name: 1.5})


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_the_tiny_model_is_generated_from_and_is_seeded(family):
    vocabulary = ArithmeticVocabulary()
    first, again, other = (
        tiny_model(vocabulary, width=16, layers=1, heads=2, family=family, seed=s)
        for s in (1, 1, 2)
    )
    for a, b, c in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.ndim == 1 or not torch.equal(a, c)
    made = generate(
        first, [vocabulary.encode("12+34=")], max_new_tokens=5, eos_ids=vocabulary.eos_id, seeds=0
    )
    assert made.tokens.shape[1] <= 5


def test_a_model_that_cannot_be():
    with pytest.raises(ValueError, match="family"):
        tiny_model(ArithmeticVocabulary(), family="gpt5")
    with pytest.raises(ValueError, match="heads"):
        tiny_model(ArithmeticVocabulary(), width=10, heads=4)
