"""One start for all methods, from Anthropic's harmless-base comparisons (arXiv:2204.05862).

The test part of the data, 2,312 pairs, is split by prompt: one half teaches the policy and the
reward model that methods are paid by (the proxy), the other half a second reward model that only
judges (the gold), and what was held out from both chooses settings ("tuning") and gives every
figure ("test"). Both reward models are scaled by the held-out answers, so that a score counts
standard deviations of what people and models wrote there.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import EncodedPair, Example, encode_preferences
from nbkit.data.hh import load_hh
from nbkit.text.protocols import LanguageModel
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers import reward_model, sft
from nbkit.trainers.reward_model import RewardModelConfig, example_scores
from nbkit.trainers.sft import SFTConfig

VARIABLE = "NBKIT_HH"  # the file harmless-base/test.jsonl.gz, or a folder of the data set
HUB = "Anthropic/hh-rlhf"
PROMPT, ANSWER, HELD_OUT = 128, 64, 512
# The marks of the model's own template, without its turn of a system, which costs 18 tokens.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LESSONS = SFTConfig(steps=56, batch_size=32, learning_rate=2e-5, warmup=5, micro_tokens=8_192)
JUDGES = RewardModelConfig(
    steps=56, batch_size=32, learning_rate=2e-5, warmup=5, micro_tokens=8_192
)
JUDGE_RATES = (2e-5, 6e-5)  # the better one on the tuning pairs is taken


@dataclass(frozen=True)
class Sides:
    """Encoded comparisons; no prompt stands on two sides.

    Attributes:
        proxy: teach policy and proxy.
        gold: teach the gold reward model.
        tuning: held out, choose settings.
        test: held out, give the figures.

    """

    proxy: list[EncodedPair]
    gold: list[EncodedPair]
    tuning: list[EncodedPair]
    test: list[EncodedPair]


def data_file() -> Path:
    """The file that ``NBKIT_HH`` names, or that of the hub, which is fetched once.

    Raises:
        ValueError: nothing is there, or nothing can be fetched; the sentence says what to do.

    """
    from nbkit.data.prefetch import local_folder  # only here: the hub's client is not light

    place = local_folder(os.environ.get(VARIABLE, HUB), "dataset")
    file = place if place.is_file() else place / "harmless-base" / "test.jsonl.gz"
    if not file.is_file():
        raise ValueError(
            f"{VARIABLE}: there is no file {file}; name harmless-base/test.jsonl.gz of {HUB}"
        )
    return file


def load_sides(file: Path, tokenizer: Any) -> Sides:
    """Read, encode and split the comparisons of a file.

    A prompt of more than 128 tokens loses its first ones, an answer of more than 64 its last.

    Args:
        file: of HH-RLHF.
        tokenizer: of transformers, with the marks of ``TEMPLATE``.

    """
    encoded = encode_preferences(
        load_hh(file).preferences,
        ChatEncoder(tokenizer, template=TEMPLATE),
        max_prompt=PROMPT,
        max_answer=ANSWER,
    )
    return split(encoded.pairs, HELD_OUT)


def split(pairs: Sequence[EncodedPair], held_out: int, seed: int = 0) -> Sides:
    """Sides of comparisons; of those with one prompt, the first alone is kept.

    Args:
        pairs: more than `held_out` of them with different prompts.
        held_out: pairs of "tuning" and "test" together.
        seed: of the order.

    Raises:
        ValueError: too few pairs.

    """
    kept = list({tuple(pair.prompt_ids): pair for pair in reversed(pairs)}.values())[::-1]
    if len(kept) < held_out + 2:
        raise ValueError(
            f"pairs: {len(kept)} with different prompts are too few for {held_out} held out; "
            "give more pairs or hold out less"
        )
    random.Random(seed).shuffle(kept)
    ends = (held_out // 2, held_out, held_out + (len(kept) - held_out) // 2)
    return Sides(
        proxy=kept[ends[1] : ends[2]],
        gold=kept[ends[2] :],
        tuning=kept[: ends[0]],
        test=kept[ends[0] : ends[1]],
    )


def teach(model: LanguageModel, pairs: Sequence[EncodedPair], pad_id: int, seed: int) -> float:
    """Supervised steps on the chosen answers, in place; return the last loss, nats a token."""
    examples = [Example(pair.prompt_ids, pair.chosen_ids) for pair in pairs]
    trainer = sft.SFTTrainer(
        model, examples, LESSONS, pad_id=pad_id, generator=torch.Generator().manual_seed(seed)
    )
    history = trainer.run(progress=False)
    return history[-1]["loss"]


def judge_of(
    model: Any,
    pairs: Sequence[EncodedPair],
    held_out: Sequence[EncodedPair],
    pad_id: int,
    *,
    rate: float,
    seed: int,
    settings: RewardModelConfig = JUDGES,
) -> ScalarModel:
    """A reward model on a copy of a language model's body, scaled by held-out answers.

    Args:
        model: gives the body.
        pairs: to learn from.
        held_out: both answers of these have mean 0 and standard deviation 1 together.
        pad_id: of the padding.
        rate: learning rate.
        seed: of the order of the pairs.
        settings: of the training, but for the rate.

    """
    judge = ScalarModel.from_causal(model)
    reward_model.RewardModelTrainer(
        judge, pairs, replace(settings, learning_rate=rate),
        pad_id=pad_id, generator=torch.Generator().manual_seed(seed),
    ).run(progress=False)  # fmt: skip
    scores = example_scores(judge, answers_of(held_out), pad_id=pad_id)
    spread = max(scores.std().item(), 1e-6)
    with torch.no_grad():
        judge.head.bias.sub_(scores.mean().item()).div_(spread)
        judge.head.weight.div_(spread)
    return judge.eval().requires_grad_(False)


def answers_of(pairs: Sequence[EncodedPair]) -> list[Example]:
    """Both answers of each pair, with their prompt."""
    return [
        Example(pair.prompt_ids, answer)
        for pair in pairs
        for answer in (pair.chosen_ids, pair.rejected_ids)
    ]
