"""GSM8K's form: read, written, and generated."""

import json
import re
from pathlib import Path

import pytest

from nbkit.data.gsm8k import load_gsm8k, write_gsm8k
from nbkit.envs.word_problems import StoryVocabulary, draw_stories, story_corpus
from nbkit.rewards.simple_grpo import reward

pytestmark = pytest.mark.chapter(24)
ROW = {
    "question": "Nia packs 6 boxes of 7 pears. How many pears is that?",
    "answer": "She packs 6*7=<<6*7=42>>42 pears.\n#### 42",
}


def test_a_row_in_the_true_form(tmp_path):
    rows = [ROW, {**ROW, "answer": "all\n#### 1,234"}, {**ROW, "answer": "cold\n#### -5"}]
    write_gsm8k(tmp_path / "train.jsonl", rows)
    loaded = load_gsm8k(tmp_path / "train.jsonl")
    assert [p.answer for p in loaded.problems] == ["42", "1,234", "-5"]
    assert [p.row for p in loaded.problems] == [1, 2, 3]
    assert loaded.problems[0].solution == "She packs 6*7=42 pears."
    assert loaded.problems[0].prompt == ROW["question"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "not an object but list"),
        ('{"question": " ", "answer": "#### 1"}', "no question"),
        ('{"question": "q", "answer": 3}', "no answer"),
        ('{"question": "q", "answer": "42"}', "no line with ####"),
        ('{"question": "q", "answer": "#### many"}', "stands no number but 'many'"),
    ],
)
def test_a_broken_row_is_named(tmp_path, line, reason):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        load_gsm8k(path)
    assert "row 2" in str(error.value)
    loaded = load_gsm8k(path, strict=False)
    assert len(loaded.problems) == 1
    assert list(loaded.broken) == [2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"question": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"question": "\xff"}', "no UTF-8 text from byte 15 on"),
    ],
)
def test_a_line_that_cannot_be_read_costs_one_row(tmp_path, line, reason):
    path = tmp_path / "train.jsonl"
    good = json.dumps(ROW).encode()
    path.write_bytes(good + b"\n" + line + b"\n" + good)
    loaded = load_gsm8k(path, strict=False)
    assert [problem.row for problem in loaded.problems] == [1, 3]
    assert list(loaded.broken) == [2] and reason in loaded.broken[2]


def test_a_line_ends_at_a_line_feed_only(tmp_path):
    odd = {**ROW, "question": "One\u2028two\u0085three?"}
    write_gsm8k(tmp_path / "train.jsonl", [odd, ROW])
    loaded = load_gsm8k(tmp_path / "train.jsonl")
    assert [problem.question for problem in loaded.problems] == [odd["question"], ROW["question"]]


def test_an_empty_file_is_an_error(tmp_path):
    (tmp_path / "train.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="no rows"):
        load_gsm8k(tmp_path / "train.jsonl")


def test_the_published_file_if_it_is_there():
    path = Path(__file__).parents[3] / "shared" / "data" / "gsm8k_test.jsonl"
    if not path.exists():
        pytest.skip("GSM8K's test file is not on this machine")
    loaded = load_gsm8k(path)
    assert len(loaded.problems) == 1319
    assert not any("<<" in problem.solution for problem in loaded.problems)


def test_stories_are_right_and_can_be_read():
    vocabulary = StoryVocabulary()
    for story in draw_stories(300, seed=1):
        assert 0 <= story.answer <= 99
        assert any(lost for _, lost in story.steps)
        text = story.question + story.completion()
        assert vocabulary.decode(vocabulary.encode(text)) == text
        assert reward(story.completion(), str(story.answer)).total == 2.25
        assert reward(story.completion(slip=True), str(story.answer)).total == 0.25


def test_stories_written_as_a_file_come_back(tmp_path):
    stories = draw_stories(20, seed=2)
    write_gsm8k(tmp_path / "train.jsonl", [story.row for story in stories])
    there = load_gsm8k(tmp_path / "train.jsonl").problems
    assert [(p.question, p.solution, p.answer) for p in there] == [
        (s.problem.question, s.problem.solution, s.problem.answer) for s in stories
    ]


def test_sides_never_mix_and_seeds_repeat():
    one = {s.question for s in draw_stories(500, seed=3)}
    other = {s.question for s in draw_stories(200, seed=4, held_out=True)}
    assert not one & other
    assert draw_stories(5, seed=3) == draw_stories(5, seed=3)
    assert draw_stories(5, seed=3) != draw_stories(5, seed=5)


def test_the_planted_share():
    stories = draw_stories(2000, seed=6)
    wrong = [
        reward(text, problem.answer).parts["correct"] == 0
        for problem, text in story_corpus(stories, slip=0.7, seed=6)
    ]
    assert 0.65 < sum(wrong) / len(wrong) < 0.75


def test_words_outside_the_vocabulary_are_named():
    with pytest.raises(ValueError, match="outside the vocabulary"):
        StoryVocabulary().encode("Zoe has 3 apples.")
