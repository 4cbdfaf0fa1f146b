"""A stage that trains a writer of short texts, and judges the weights that come back."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bookkit.builds.notes import Notes
from bookkit.builds.recorded import Recorded
from bookkit.builds.session import Session, Stopped
from bookkit.builds.verdict import Curve, Finding, Picture
from bookkit.builds.weights import loaded, unchanged
from bookkit.builds.wire import Arrays
from nbkit.envs.reviews import ALPHABET, NEGATIVE, NEUTRAL, POSITIVE, reviews
from nbkit.rewards.text import contains_keyword
from nbkit.text.environment import TextEnv
from nbkit.text.metrics import judge as measured
from nbkit.text.policies import LSTMPolicy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.pretraining import pretrain

WIDTH, TEXTS, JUDGED = 96, 8000, 512
MAX_NEW_TOKENS = 40
SHOWN = 4
EARLY, OFTEN = 3, 10  # batches in which a writer that samples cannot repeat itself
FAR = 100.0  # nats a text: without a penalty a writer goes 15 to 50, paid for distance 180 and more


@dataclass
class Scored:
    """The judge's side of the world: counts tokens, keeps rewards, looks for what is no sampling.

    Attributes:
        env: decodes and scores.
        budget: tokens, the ends included.
        texts: how many were scored.
        means: (texts so far, mean reward) of each batch.
        alike: of the first `EARLY` batches, how many held one text only.
        again: of the first `OFTEN` batches, how many had been scored before.

    """

    env: TextEnv
    budget: int
    used: int = 0
    texts: int = 0
    means: list[tuple[float, float]] = field(default_factory=list)
    alike: int = 0
    again: int = 0

    def __post_init__(self) -> None:
        self._seen: set[bytes] = set()

    def answer(self, kind: str, _: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Answer `score`.

        Raises:
            Stopped: ids that are none, or more tokens than the budget.

        """
        if kind != "score":
            raise Stopped(f"your process asked for {kind!r}, which the world does not answer")
        ids, size = arrays.get("ids"), len(self.env.vocabulary)
        if (
            ids is None
            or ids.dtype != np.int64
            or ids.ndim != 2
            or not len(ids)
            or not 0 < ids.shape[1] <= MAX_NEW_TOKENS
        ):
            shape = None if ids is None else ids.shape
            raise Stopped(
                f"`world.score` wants token ids of texts (B, T), T at most {MAX_NEW_TOKENS}; it "
                "got "
                f"the shape {shape}"
            )
        if ids.min() < 0 or ids.max() >= size:
            raise Stopped(
                f"`world.score` wants ids from 0 to {size - 1}; got {ids.min()} to {ids.max()}"
            )
        ended = np.cumsum(ids == self.env.vocabulary.eos_id, axis=1)
        tokens = int(((ended == 0).sum(1) + (ended[:, -1] > 0)).sum())
        if self.used + tokens > self.budget:
            raise Stopped(
                f"your file asked for the scores of more than its {self.budget:,} tokens: stop "
                "when "
                "`world.tokens_left` is smaller than a batch"
            )
        self.used += tokens
        if len(self.means) < EARLY:
            self.alike += len(ids) > 3 and bool((ids == ids[0]).all())
        if len(self.means) < OFTEN:
            self.again += ids.tobytes() in self._seen
        self._seen.add(ids.tobytes())
        reward = self.env.terminal_reward
        assert reward is not None
        rewards = [reward(self.env.vocabulary.decode(row)) for row in ids.tolist()]
        self.texts += len(rewards)
        self.means.append((float(self.texts), sum(rewards) / len(rewards)))
        return {"tokens_left": self.budget - self.used}, {
            "rewards": np.array(rewards, dtype=np.float32)
        }


@dataclass(frozen=True)
class WritingStage:
    """Train a fresh writer to use a word that is drawn anew, near to how it wrote before.

    Attributes:
        title: of the stage.
        settings: of the training.
        tokens: of the budget.
        rate: the share of texts with the word that passes.
        nats: the KL from the writer as it was, a text, that passes; inf: any.
        results: curves to draw beside the learner's.

    """

    title: str
    settings: Mapping[str, Any]
    tokens: int
    rate: float
    nats: float
    results: tuple[Recorded, ...] = ()

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Make a writer, have it trained, sample from what comes back."""
        vocabulary = CharVocabulary(ALPHABET)
        word = draw.choice([w for w in (*POSITIVE, *NEGATIVE, *NEUTRAL) if len(w) > 3])
        env = TextEnv(vocabulary, contains_keyword(word), max_new_tokens=MAX_NEW_TOKENS)
        base = make_writer(vocabulary, draw)
        held, notes, before = Scored(env, self.tokens), Notes(), session.meter.seconds
        reply = session.call(
            "train",
            {
                "task": self.title,
                "settings": dict(self.settings),
                "seed": draw.randrange(2**31),
                "width": WIDTH,
                "world": self._world(vocabulary),
            },
            {name: x.numpy() for name, x in base.state_dict().items()},
            answer=held.answer,
            note=notes.take,
        )
        seconds = session.meter.seconds - before
        trained = loaded(base, reply.arrays)
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        old, new = Sample.of(base, base, env, generator), Sample.of(trained, base, env, generator)
        symptom = self._symptom(old, new, held, unchanged(base, trained))
        score = (
            f"{new.rate:.0%} of {JUDGED} texts hold the word {word!r}, {old.rate:.0%} did before, "
            "at a "
            f"KL of {new.nats:.1f} nats a text; {self._wanted()}"
        )
        curves = (Curve("yours", held.means), *(c for r in self.results for c in r.curves()))
        return Finding(
            self.title,
            symptom is None,
            score if symptom is None else f"{symptom} ({score}.)",
            (
                *notes.plain(),
                f"perplexity under the first writer {old.perplexity:.2f} → {new.perplexity:.2f}, "
                f"different texts {old.different:.0%} → {new.different:.0%}",
            ),
            Picture(self.title, "texts", "mean reward", curves, 2 * self.rate - 1),
            score=new.rate,
            used=held.used,
            unit="tokens",
            processor_seconds=seconds,
            samples=(
                *(f"before: {text}" for text in old.texts),
                *(f"after:  {text}" for text in new.texts),
            ),
        )

    def _wanted(self) -> str:
        limit = "" if math.isinf(self.nats) else f" and at most {self.nats:g} nats"
        return f"{self.rate:.0%}{limit} pass"

    def _world(self, vocabulary: CharVocabulary) -> dict[str, int]:
        return {
            "bos_id": vocabulary.bos_id,
            "eos_id": vocabulary.eos_id,
            "pad_id": vocabulary.pad_id,
            "vocabulary_size": len(vocabulary),
            "max_new_tokens": MAX_NEW_TOKENS,
            "tokens_left": self.tokens,
        }

    def _symptom(self, old: "Sample", new: "Sample", held: Scored, same: bool) -> str | None:
        """None where it passes; else what the numbers point to."""
        if held.alike == EARLY:
            return (
                f"In the first {EARLY} batches all texts are the same: the most likely token was "
                "taken, "
                "or one draw served all rows. Draw a token for each row."
            )
        if same:
            return (
                "The weights are those that the writer began with: no step was taken, or the "
                "optimiser "
                "holds the parameters of a copy."
            )
        if held.again:
            return (
                f"{held.again} of the first {OFTEN} batches had been scored before: REINFORCE "
                "wants "
                "texts of the writer as it is now, so sample anew before each step."
            )
        if new.nats <= self.nats:
            return self._rarity(old, new)
        if new.rate < self.rate or new.nats > FAR:
            return (
                f"The writer has left its language (perplexity {new.perplexity:.0f}): "
                "the "
                "penalty pays for distance. It takes β (log π − log π_base) off the reward."
            )
        return (
            f"The word is there and the variety is gone: a text with the word needs "
            f"{math.log(1 / old.rate):.1f} nats, the rest is lost language. Penalise the KL from "
            "the "
            "first writer."
        )

    def _rarity(self, old: "Sample", new: "Sample") -> str | None:
        if new.rate < 0.5 * old.rate:
            return (
                "The word has become rarer: the loss or the advantage has the wrong sign, or the "
                "logits score another token."
            )
        if new.rate < self.rate:
            return (
                "The word is not used often enough: the logits score another token, the mask does "
                "not end with the text, or the steps are too small."
            )
        return None


@dataclass(frozen=True)
class Sample:
    """What texts of a writer are like.

    Attributes:
        rate: the share with the word.
        nats: KL from the first writer, a text.
        perplexity: under the first writer.
        different: the share of different texts.
        texts: some of them.

    """

    rate: float
    nats: float
    perplexity: float
    different: float
    texts: tuple[str, ...]

    @classmethod
    def of(
        cls, writer: LSTMPolicy, base: LSTMPolicy, env: TextEnv, generator: torch.Generator
    ) -> "Sample":
        """Sample `JUDGED` texts."""
        batch = rollout(writer, env, JUDGED, generator=generator)
        seen, texts = measured(batch, env, base), batch.texts(env)
        rate = float((batch.returns > 0).float().mean())
        different = len(Counter(texts)) / len(texts)
        return cls(rate, seen["kl"], seen["perplexity"], different, tuple(texts[:SHOWN]))


def make_writer(vocabulary: CharVocabulary, draw: random.Random) -> LSTMPolicy:
    """A writer that has learned the book's film reviews, from a seed of its own."""
    seed = draw.randrange(2**31)
    torch.manual_seed(seed)
    writer = LSTMPolicy(len(vocabulary), width=WIDTH)
    corpus = reviews(TEXTS, seed=seed)
    pretrain(writer, vocabulary, corpus, steps=300, learning_rate=2e-2, seed=seed, progress=False)
    return writer.requires_grad_(False)
