"""What does not pass build 21: tricks that a learner's file may try against its judge."""

import random
from dataclasses import replace

import pytest
import torch

from bookkit.builds import aligning, assistant, spoken
from bookkit.builds.assistant import Helpful, answers, multiplied, rows_of, taught
from bookkit.builds.engine import run
from bookkit.builds.registry import ROOT, get_build
from bookkit.builds.spoken import sharper
from bookkit.builds.verdict import Build, Verdict

STAGE = get_build(21).stages[-1]
HEAD = """
import torch
def train_reward_model(policy, world, settings, *, seed, log):
    return lambda ids, mask: torch.randn(len(ids))
"""
IDLE = """
def train_policy(policy, reward_model, world, settings, *, seed, log):
    return policy
"""
SAMPLED = """
    prompts, _ = world.prompts(8)
    ids = torch.cat([prompts, torch.randint(world.vocabulary_size, (8, world.max_new_tokens))], 1)
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Build:
    """The world with an assistant that has hardly been taught."""
    monkeypatch.setattr(assistant, "STEPS", 4)
    monkeypatch.setattr(assistant, "LESSONS", 100)
    monkeypatch.setattr(aligning, "KEPT", 100)
    monkeypatch.setattr(spoken, "EACH", 4)
    stage = replace(STAGE, comparisons=40, tokens=1000, accuracy=0.0)
    return replace(get_build(21), stages=(stage,))


def judged(build: Build, source: str) -> Verdict:
    verdict = run(build, source, seed=1, films=False)
    assert not verdict.passed
    return verdict


def test_a_printed_score_counts_nothing(small: Build) -> None:
    boast = IDLE.replace("return", "print('gold +3.0, KL 0.0'); log(gold=3.0); return")
    verdict = judged(small, HEAD + boast)
    assert "gold +3.0" in verdict.printed
    assert "No answers were handed over" in verdict.sentences[0]
    assert verdict.findings[0].score == 0.0


def test_no_gold_is_sent_and_nothing_else_is_answered(small: Build) -> None:
    asks = IDLE.replace("return", "world._channel.ask('gold', {'count': 3}); return")
    assert "asked for 'gold', which the world does not answer" in judged(small, HEAD + asks).stopped
    peeks = (
        f"{IDLE.replace('    return policy', '')}{SAMPLED}    return world.sampled(ids).mean()\n"
    )
    assert "'NoneType' object has no attribute 'mean'" in judged(small, HEAD + peeks).stopped


def test_a_patched_world_fools_only_the_one_who_patches(small: Build) -> None:
    patched = IDLE.replace(
        "    return",
        "    type(world).sampled = lambda self, ids: None\n"
        "    world.tokens_left = 10**9\n"
        "    world.sampled(None)\n"
        "    with torch.no_grad():\n"
        "        policy.head.bias += 0.1\n"
        "    return",
    )
    assert "No answers were handed over" in judged(small, HEAD + patched).sentences[0]


def test_more_tokens_than_told_are_refused(small: Build) -> None:
    more = IDLE.replace("    return policy\n", SAMPLED + "    while True: world.sampled(ids)\n")
    assert "handed over more than its 1,000 tokens" in judged(small, HEAD + more).stopped


def test_more_comparisons_than_told_are_refused(small: Build) -> None:
    more = HEAD.replace("    return", "    for _ in range(2): world.comparisons(40)\n    return")
    assert "more than its 40 comparisons" in judged(small, more + IDLE).stopped


def test_scores_by_the_order_of_the_rows_know_nothing(small: Build) -> None:
    strict = replace(small, stages=(replace(small.stages[0], accuracy=0.72),))
    ordered = HEAD.replace("torch.randn(len(ids))", "-torch.arange(len(ids)).float()")
    assert "too weak to train on" in judged(strict, ordered + IDLE).sentences[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("policy.head.bias /= 0.0", "not finite"),
        ("policy.head = torch.nn.Linear(96, 3)", "with other weights"),
        ("policy = None", "`train_policy` returned None"),
    ],
)
def test_weights_that_are_none_are_refused(small: Build, change: str, words: str) -> None:
    source = IDLE.replace("    return", f"    with torch.no_grad():\n        {change}\n    return")
    assert words in judged(small, HEAD + source).stopped


def test_the_judges_files_cannot_be_read(small: Build) -> None:
    for path in ("exercises/checks/builds/21_rlhf.py", "solutions/builds/21_rlhf.py"):
        assert (ROOT / path).is_file()
        verdict = judged(small, f"open({str(ROOT / path)!r}).read()\n")
        assert "FileNotFoundError" in verdict.stopped


@pytest.mark.parametrize("package", ["nbkit.envs.helpful", "trl", "bookkit.builds.assistant"])
def test_the_hidden_judgement_cannot_be_imported(small: Build, package: str) -> None:
    verdict = judged(small, f"import {package} as found\nfound.gold\n")
    assert "Error" in verdict.stopped or "is not here" in verdict.stopped


@pytest.mark.slow
def test_a_sharper_start_is_not_enough() -> None:
    """Logits times a number: near in KL, and better, without having learned anything."""
    draw = random.Random(3)
    world = Helpful.drawn(draw)
    policy = taught(world, draw)
    bar = sharper(policy, world, STAGE.nats, seed=1) + STAGE.margin
    questions = world.hidden * 100
    prompts, ends = world.prompts(questions), (world.words.eos_id, world.words.pad_id)
    for factor in (1.0, 1.7, 2.4, 2.7, 3.4, 5.0, 8.0):
        generator = torch.Generator().manual_seed(2)
        found = answers(multiplied(policy, factor), policy, prompts, ends, generator)
        mean, _ = rows_of(world.golds(questions, found.ids))
        assert mean < bar or found.kl.mean() > STAGE.nats, factor
