"""A stage that trains a pupil by the marks of its answers, and asks it sums that it has not "
"seen."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bookkit.builds import sums as task
from bookkit.builds.notes import Notes
from bookkit.builds.recorded import Recorded
from bookkit.builds.session import Session
from bookkit.builds.sums import EARLY, OFTEN, Graded, Sums
from bookkit.builds.verdict import Curve, Finding, Picture
from bookkit.builds.weights import loaded, moved, unchanged

SHOWN = 6
WORSE = 0.1


@dataclass(frozen=True)
class Outcome:
    """What a training came to.

    Attributes:
        old: accuracy on sums that were kept back, before.
        new: after.
        distance: KL of the pupil from the one before, nats an answer.
        same: whether no weight has changed.
        held: the judge's counts.

    """

    old: float
    new: float
    distance: float
    same: bool
    held: Graded


@dataclass(frozen=True)
class GradingStage:
    """Train a fresh pupil on sums, and look at what comes back.

    Attributes:
        title: of the stage.
        settings: of the training.
        tokens: of the budget.
        accuracy: on sums that were kept back; what passes.
        gain: how much better than before; what passes.
        nats: the KL from the pupil before, an answer; what passes at most.
        offset: how far rewards differ from problem to problem for no merit of the answers.
        far: the sentence for a pupil that went further than `nats`.
        low: the sentence for one that stays below `accuracy`.
        results: curves to draw beside the learner's.

    """

    title: str
    settings: Mapping[str, Any]
    tokens: int
    low: str = ""
    far: str = ""
    accuracy: float = 0.0
    gain: float = -1.0
    nats: float = math.inf
    offset: float = 0.0
    results: tuple[Recorded, ...] = ()

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Teach a pupil, have it trained, mark it."""
        sums = Sums.drawn(draw)
        pupil = task.taught(sums, draw)
        held = Graded(sums, random.Random(draw.randrange(2**31)), self.tokens, self.offset)
        notes, before = Notes(), session.meter.seconds
        reply = session.call(
            "train",
            {
                "task": self.title,
                "settings": dict(self.settings),
                "seed": draw.randrange(2**31),
                "width": task.WIDTH,
                "world": {
                    "bos_id": sums.vocabulary.bos_id,
                    "eos_id": sums.vocabulary.eos_id,
                    "pad_id": sums.vocabulary.pad_id,
                    "vocabulary_size": len(sums.vocabulary),
                    "max_new_tokens": task.ANSWER,
                    "tokens_left": self.tokens,
                },
            },
            {name: x.numpy() for name, x in pupil.state_dict().items()},
            answer=held.answer,
            note=notes.take,
        )
        seconds = session.meter.seconds - before
        trained = loaded(pupil, reply.arrays)
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        asked = torch.tensor([sums.prompt(problem) for problem in sums.kept])
        found = Outcome(
            task.accuracy(pupil, sums, generator),
            task.accuracy(trained, sums, generator),
            moved(trained, pupil, asked, task.ANSWER, sums.vocabulary.eos_id, generator),
            unchanged(pupil, trained),
            held,
        )
        symptom = self._symptom(found)
        said = (
            f"{found.new:.0%} of the answers to {len(sums.kept)} sums that were kept back are "
            "right, "
            f"{found.old:.0%} were before, at a KL of {found.distance:.2f} nats an answer"
        )
        curves = (Curve("yours", held.means), *(c for r in self.results for c in r.curves()))
        shown = list(sums.kept[:SHOWN])
        texts = zip(
            shown,
            task.answers(pupil, sums, shown, generator),
            task.answers(trained, sums, shown, generator),
            strict=True,
        )
        return Finding(
            self.title,
            symptom is None,
            said if symptom is None else f"{symptom} ({said}.)",
            tuple(notes.plain()),
            Picture(self.title, "answers", "share of right answers", curves, self.accuracy),
            score=found.new,
            used=held.used,
            unit="tokens",
            samples=tuple(f"{a}+{b}= before {old}, after {new}" for (a, b), old, new in texts),
            processor_seconds=seconds,
        )

    def _symptom(self, found: Outcome) -> str | None:
        """None where it passes; else what the numbers point to."""
        held = found.held
        if held.single:
            return (
                "Some problems have one answer only: a group is several answers to one problem, "
                "and "
                "one answer has nothing to be compared with."
            )
        if held.alike == EARLY:
            return (
                f"In the first {EARLY} batches all answers to a problem are the same: the most "
                "likely "
                "token was taken, or one draw served all rows. Draw a token for each row."
            )
        if found.same:
            return (
                "The weights are those that the pupil began with: no step was taken, or the "
                "optimiser "
                "holds the parameters of a copy."
            )
        if not held.means:
            return "No answer was scored: sample answers, and learn from what `world.score` says."
        if held.again:
            return (
                f"{held.again} of the first {OFTEN} batches had been scored before: sample anew "
                "before "
                "each update."
            )
        if self.accuracy and found.new < found.old - WORSE:
            return (
                "The pupil has become worse: the loss or the advantage has the wrong sign, or the "
                "logits score another token."
            )
        if found.new < self.accuracy or found.new < found.old + self.gain:
            return self.low
        return self.far if found.distance > self.nats else None
