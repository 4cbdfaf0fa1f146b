"""The numbers of chapter 22: a base that has seen demonstrations, pairs of its answers, a judge.

Everything a run, live or in a study, needs around the trainer; each function is of one seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbkit.data.encode import EncodedPair
from nbkit.envs.helpful import (
    HelpfulVocabulary,
    Pair,
    all_questions,
    demonstrations,
    encode_demonstrations,
    encode_pairs,
    gold,
    policy_sampler,
    preference_pairs,
)
from nbkit.envs.helpful.language import NOUNS, TOPICS
from nbkit.text.protocols import LanguageModel, PretrainedModel
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers import sft
from nbkit.trainers.dpo.config import DPOConfig
from nbkit.trainers.dpo.evaluation import Judgement, judge

VOCABULARY = HelpfulVocabulary()
DEMONSTRATIONS = 8000
SFT = sft.SFTConfig(steps=250, batch_size=32, learning_rate=1e-2)
MAX_NEW_TOKENS = 40
LIVE = DPOConfig(beta=0.1, steps=150, batch_size=32, learning_rate=3e-4)


@dataclass(frozen=True)
class Base:
    """What both methods of the chapter start from.

    Attributes:
        model: after supervised fine-tuning; also the reference.
        pairs: two of its answers to one question each, with the judge's noisy choice.

    """

    model: PretrainedModel
    pairs: list[Pair]


def make_base(seed: int, *, pairs: int, device: str = "cpu", sft_steps: int | None = None) -> Base:
    """Supervised fine-tuning from nothing, then pairs sampled from the result.

    Args:
        seed: of weights, demonstrations, samples and labels.
        pairs: how many.
        device: of the model.
        sft_steps: fewer than in the recipe, for the beginning of a study.

    """
    model = tiny_model(VOCABULARY, width=64, layers=2, heads=4, max_length=64, seed=seed).to(device)
    examples = encode_demonstrations(demonstrations(DEMONSTRATIONS, seed=seed), VOCABULARY)
    config = SFT if sft_steps is None else sft.SFTConfig(sft_steps, SFT.batch_size, 1e-2)
    sft.SFTTrainer(
        model,
        examples,
        config,
        pad_id=VOCABULARY.pad_id,
        generator=torch.Generator().manual_seed(seed),
    ).run(progress=False)
    sampler = policy_sampler(model, VOCABULARY, max_new_tokens=MAX_NEW_TOKENS, rounds=20)
    return Base(model, preference_pairs(pairs, seed=seed, sampler=sampler))


def judged(
    model: LanguageModel, reference: LanguageModel, *, seed: int, answers: int = 24
) -> Judgement:
    """Let a policy answer each held-out question several times, and the hidden judge score it.

    Args:
        model: the policy.
        reference: of the divergence.
        seed: of the sampling.
        answers: to each of the questions.

    """
    questions = all_questions(held_out=True)

    def score(number: int, ids: list[int], ended: bool) -> float:
        return gold(questions[number], VOCABULARY.decode(ids), truncated=not ended)

    return judge(
        model,
        reference,
        [VOCABULARY.encode(question.prompt) for question in questions],
        max_new_tokens=MAX_NEW_TOKENS,
        eos_id=VOCABULARY.eos_id,
        pad_id=VOCABULARY.pad_id,
        seed=seed,
        group_size=answers,
        score=score,
    )


def flip_labels(pairs: Sequence[Pair], share: float, *, seed: int) -> list[Pair]:
    """The same pairs, each turned round with this probability."""
    source = random.Random(f"flips {seed}")
    return [_turned(pair) if source.random() < share else pair for pair in pairs]


def longer_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Labels of a judge who counts words: the longer answer wins, a tie stays as it is."""
    return [_turned(p) if len(p.rejected.split()) > len(p.chosen.split()) else p for p in pairs]


def length_balanced(pairs: Sequence[Pair], *, seed: int) -> list[Pair]:
    """The pairs in which the label says nothing of length: each has a partner.

    A pair whose chosen answer is longer by d words stays only where one whose chosen answer is
    shorter by d stays too; pairs of equal length stay all.
    """
    source = random.Random(f"balance {seed}")
    of_gap: dict[int, list[int]] = {}
    for number, pair in enumerate(pairs):
        gap = len(pair.chosen.split()) - len(pair.rejected.split())
        of_gap.setdefault(gap, []).append(number)
    kept = list(of_gap.get(0, []))
    for gap in sorted(gap for gap in of_gap if gap > 0):
        sides = of_gap[gap], of_gap.get(-gap, [])
        count = min(map(len, sides))
        for side in sides:
            kept += source.sample(side, count)
    return [pairs[number] for number in sorted(kept)]


def twins(pairs: Sequence[Pair], *, seed: int) -> list[Pair]:
    """Pairs that differ in one word: the chosen answer, and a copy with a noun of another topic.

    A noun is taken that belongs to the topic, so the judge always prefers the original; pairs
    without one are left out.
    """
    source = random.Random(f"twins {seed}")
    made = []
    for pair in pairs:
        own = [noun for _, noun in TOPICS[pair.question.topic]]
        words = pair.chosen.split()
        places = [i for i, word in enumerate(words) if word in own]
        if not places:
            continue
        words[places[0]] = source.choice([noun for noun in NOUNS if noun not in own])
        copy = " ".join(words)
        scores = gold(pair.question, pair.chosen), gold(pair.question, copy)
        if scores[0] > scores[1]:
            made.append(Pair(pair.question, pair.chosen, copy, *scores))
    return made


def ids_of(pairs: Sequence[Pair]) -> list[EncodedPair]:
    """Pairs of the world as the trainer takes them."""
    return encode_pairs(pairs, VOCABULARY)


def _turned(pair: Pair) -> Pair:
    return Pair(pair.question, pair.rejected, pair.chosen, pair.gold_rejected, pair.gold_chosen)
