"""A stage that asks a learner's reward model about pairs of which the winner is known."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.builds.enumerated import ANSWER, PAD, SIZE, WIDTH, Tiny
from bookkit.builds.session import Session, Stopped
from bookkit.builds.supplies import Supplies
from bookkit.builds.verdict import Finding
from bookkit.builds.wire import Arrays

PAIRS, JUDGED = 1500, 500
DECIDED = 3.0  # labels are drawn with sigmoid(DECIDED * difference of worth)
CLEAR = 0.3  # pairs that differ by less are not judged
MORE_PADS = 6


@dataclass(frozen=True)
class PreferringStage:
    """Train a reward model on words that each have a worth, and ask it about new pairs.

    Attributes:
        title: of the stage.
        settings: of the training.
        accuracy: the share of pairs that passes.

    """

    title: str
    settings: Mapping[str, Any]
    accuracy: float

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Have it trained, ask, and say what the answers point to."""
        tiny, before = Tiny.drawn(draw), session.meter.seconds
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        worth = torch.randn(SIZE, generator=generator)
        first, second = (_answers(tiny, PAIRS + JUDGED, generator) for _ in range(2))
        apart = _worth(tiny, first, worth) - _worth(tiny, second, worth)
        wins = torch.rand(len(apart), generator=generator) < (DECIDED * apart).sigmoid()
        chosen = torch.where(wins[:, None], first, second)[:PAIRS]
        rejected = torch.where(wins[:, None], second, first)[:PAIRS]
        held = Supplies(
            tiny.prompts.numpy(),
            chosen.numpy(),
            rejected.numpy(),
            tiny.ids,
            SIZE,
            ANSWER,
            0,
            draw,
            lambda prompts, answers: [0.0] * len(prompts),
        )
        data = {
            "task": f"probe {draw.randrange(2**31)}",
            "settings": dict(self.settings),
            "seed": draw.randrange(2**31),
            "width": WIDTH,
            "world": held.describe(),
        }
        weights = {name: x.numpy() for name, x in tiny.policy.state_dict().items()}
        session.call("reward_model", data, weights, answer=held.answer)
        kept = [part[PAIRS:][apart[PAIRS:].abs() > CLEAR] for part in (first, second)]
        ids, gap = torch.cat(kept), apart[PAIRS:][apart[PAIRS:].abs() > CLEAR]
        scores = asked(session, held, ids)
        moved = (asked(session, held, ids, pads=MORE_PADS) - scores).abs().max().item()
        left, right = scores.chunk(2)
        accuracy = ((left > right) == (gap > 0)).double().mean().item()
        slope = ((left - right) * gap).sum().item() / gap.square().sum().item()
        symptom = self._symptom(held, scores, moved, accuracy)
        said = (
            f"{accuracy:.0%} of {len(gap)} new pairs are ordered as their words are worth; "
            f"differences of scores are {slope / DECIDED:.1f} times the log odds of the labels"
        )
        return Finding(
            self.title,
            symptom is None,
            said if symptom is None else f"{symptom} ({said}.)",
            score=accuracy,
            used=held.given,
            unit="comparisons",
            processor_seconds=session.meter.seconds - before,
        )

    def _symptom(self, held: Supplies, scores: Tensor, moved: float, accuracy: float) -> str | None:
        spread = scores.std().item()
        if not held.given:
            return "No comparison was asked for: `world.comparisons` gives pairs to learn from."
        if not spread > 1e-4:
            return "All answers have one score: no step was taken, or only the prompt is read."
        if moved > 0.02 * spread:
            return (
                "A score changes with the padding behind the answer: it is read at the last "
                "column. Read it at the last token, the last place where the mask is true."
            )
        if accuracy < 0.5 - (self.accuracy - 0.5) / 2:
            return (
                "It prefers the answers that lost: the loss is −log σ(chosen − rejected), and the "
                "difference or the loss has the wrong sign."
            )
        if accuracy < self.accuracy:
            return (
                "It tells better answers hardly from worse ones: look at the place where the "
                "score is read, at the mask, and at the loss of a pair."
            )
        return None


def asked(session: Session, held: Supplies, ids: Tensor, *, pads: int = 0) -> Tensor:
    """The learner's scores of prompts with answers (B, P+T), with more padding on the right."""
    longer = torch.nn.functional.pad(ids, (0, pads), value=held.ids[0])
    sent: Arrays = {"ids": longer.numpy(), "mask": held.mask_of(longer.numpy())}
    found = session.call("score", arrays=sent).arrays.get("scores")
    if found is None or found.shape != (len(ids),):
        raise Stopped("your reward model gives one score a row, (B,)")
    scores = torch.from_numpy(found).double()
    if not scores.isfinite().all():
        raise Stopped("your reward model gives scores that are not finite: training has diverged")
    return scores


def _answers(tiny: Tiny, count: int, generator: torch.Generator) -> Tensor:
    """Prompts in turn with answers of words drawn alike, 0 to `ANSWER` - 1 of them, and the EOS."""
    lengths = torch.randint(ANSWER, (count, 1), generator=generator)
    words = tiny.order[torch.randint(3, SIZE, (count, ANSWER), generator=generator)]
    places = torch.arange(ANSWER)
    ids = torch.where(places < lengths, words, tiny.ids[PAD])
    ids = torch.where(places == lengths, tiny.ids[2], ids)
    return torch.cat([tiny.prompts[torch.arange(count) % 2], ids], 1)


def _worth(tiny: Tiny, ids: Tensor, worth: Tensor) -> Tensor:
    """The sum of what the words of each answer are worth, (B,)."""
    words = (ids[:, tiny.prompts.shape[1] :, None] == tiny.order[3:]).double()
    return (words.sum(1) * worth[3:]).sum(1)
