"""Sides of real comparisons share no prompt, and a judge is scaled by held-out answers."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nbkit.data.encode import EncodedPair
from nbkit.envs.helpful import HelpfulVocabulary, encode_pairs, preference_pairs
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.reward_model import example_scores
from studies import _hh_data

pytestmark = pytest.mark.chapter(21)


def numbered(count: int) -> list[EncodedPair]:
    """Pairs of which every third has the prompt of the one before."""
    return [EncodedPair((i - (i % 3 == 2), 1), (i,), (i + 1,), row=i) for i in range(count)]


def test_no_prompt_stands_on_two_sides_and_each_is_kept_once() -> None:
    sides = _hh_data.split(numbered(60), 12)
    every = [sides.proxy, sides.gold, sides.tuning, sides.test]
    prompts = [pair.prompt_ids for side in every for pair in side]
    assert len(prompts) == len(set(prompts)) == 40
    assert [len(side) for side in every] == [14, 14, 6, 6]
    assert not any((pair.row or 0) % 3 == 2 for side in every for pair in side)  # the first is kept
    assert sides == _hh_data.split(numbered(60), 12)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        _hh_data.split(numbered(12), 8)


def test_a_judge_gives_held_out_answers_mean_0_and_deviation_1_and_learns() -> None:
    vocabulary = HelpfulVocabulary()
    pairs = encode_pairs(preference_pairs(160, seed=5), vocabulary)
    settings = replace(_hh_data.JUDGES, steps=30, batch_size=16)
    judge = _hh_data.judge_of(
        tiny_model(vocabulary, max_length=64, seed=5), pairs[:96], pairs[96:],
        vocabulary.pad_id, rate=3e-3, seed=5, settings=settings,
    )  # fmt: skip
    scores = example_scores(judge, _hh_data.answers_of(pairs[96:]), pad_id=vocabulary.pad_id)
    assert scores.mean().item() == pytest.approx(0.0, abs=1e-4)
    assert scores.std().item() == pytest.approx(1.0, abs=1e-4)
    taught = example_scores(judge, _hh_data.answers_of(pairs[:96]), pad_id=vocabulary.pad_id)
    chosen, rejected = taught.view(-1, 2).unbind(1)
    assert (chosen > rejected).double().mean() > 0.75  # half of them by chance
    assert not any(p.requires_grad for p in judge.parameters())


def test_the_file_is_found_by_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "harmless-base" / "test.jsonl.gz"
    monkeypatch.setenv(_hh_data.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=_hh_data.VARIABLE):
        _hh_data.data_file()
    file.parent.mkdir()
    with gzip.open(file, "wt") as out:
        out.write(json.dumps({"chosen": "", "rejected": ""}) + "\n")
    assert _hh_data.data_file() == file
    monkeypatch.setenv(_hh_data.VARIABLE, str(file))
    assert _hh_data.data_file() == file


def test_stage_one_makes_the_chosen_answers_likelier() -> None:
    vocabulary = HelpfulVocabulary()
    pairs = encode_pairs(preference_pairs(64, seed=5), vocabulary)
    model = tiny_model(vocabulary, max_length=64, seed=5)
    before = torch.cat([p.detach().flatten() for p in model.parameters()]).clone()
    last = _hh_data.teach(model, pairs, vocabulary.pad_id, seed=5)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert last < 0.999 * torch.tensor(float(len(vocabulary))).log().item()
    assert not torch.equal(before, after)
