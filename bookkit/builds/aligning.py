"""A stage that has an assistant aligned to a hidden judgement, and measures what comes back."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bookkit.builds import assistant as task
from bookkit.builds.assistant import Helpful
from bookkit.builds.notes import Notes
from bookkit.builds.preferring import asked
from bookkit.builds.recorded import Recorded
from bookkit.builds.session import Session
from bookkit.builds.spoken import Spoken, looks, sharper, spoken
from bookkit.builds.supplies import Ids, Supplies
from bookkit.builds.tilting import counted, foreign
from bookkit.builds.verdict import Curve, Finding, Picture
from bookkit.builds.weights import loaded, unchanged
from nbkit.text.policies import LSTMPolicy

KEPT = 600  # comparisons that are kept back


@dataclass(frozen=True)
class AligningStage:
    """Train a reward model on comparisons and a policy on its scores, and look at both.

    Attributes:
        title: of the stage.
        rewarding: settings of the reward model.
        settings: of the policy's training.
        comparisons: of the budget.
        tokens: of the budget.
        accuracy: of the reward model, on comparisons that were kept back; what passes.
        gain: how much the gold of answers to hidden questions rises; what passes.
        margin: how far it is above that of a sharper start; what passes.
        nats: the KL, an answer; what passes at most.
        results: curves to draw beside the learner's.

    """

    title: str
    rewarding: Mapping[str, Any]
    settings: Mapping[str, Any]
    comparisons: int
    tokens: int
    accuracy: float
    gain: float
    margin: float
    nats: float
    results: tuple[Recorded, ...] = ()

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Teach an assistant, compare its answers, have it aligned, ask it hidden questions."""
        world = Helpful.drawn(draw)
        policy = task.taught(world, draw)
        pairs = task.compared(world, policy, world.asked, self.comparisons, draw)
        held = self._supplies(world, pairs, draw)
        learned, notes, before = Notes(), Notes(), session.meter.seconds
        data = {
            "seed": draw.randrange(2**31),
            "width": task.WIDTH,
            "world": held.describe(),
            "judges_scores": False,
        }
        weights = {name: x.numpy() for name, x in policy.state_dict().items()}
        rewarding = {"task": "reward model", "settings": dict(self.rewarding)}
        session.call(
            "reward_model", {**data, **rewarding}, weights, answer=held.answer, note=learned.take
        )
        accuracy = self._accuracy(session, held, world, policy, draw)
        known = f"the reward model orders {accuracy:.0%} of {KEPT} new pairs as the hidden judge"
        if accuracy < self.accuracy:
            return Finding(
                self.title,
                False,
                f"The reward model is too weak to train on ({known}; {self.accuracy:.0%} pass): "
                "use all comparisons, look at the steps, and compare its loss with that on pairs "
                "that you keep back.",
                tuple(learned.plain()),
                used=held.given,
                unit="comparisons",
                processor_seconds=session.meter.seconds - before,
            )
        aligning = {"task": self.title, "settings": dict(self.settings), "world": held.describe()}
        reply = session.call(
            "train", {**data, **aligning}, weights, answer=held.answer, note=notes.take
        )
        seconds = session.meter.seconds - before
        trained = loaded(policy, reply.arrays)
        seed = draw.randrange(2**31)
        old, new = (spoken(each, policy, world, session, held, seed) for each in (policy, trained))
        sharp = sharper(policy, world, self.nats, seed)
        symptom = (
            counted(held, same=unchanged(policy, trained))
            or foreign(trained, policy, held, new.kl)
            or self._symptom(old, new, sharp)
        )
        said = (
            f"gold {old.gold:+.2f} → {new.gold:+.2f} (± {new.error:.2f}) on {len(world.hidden)} "
            f"hidden questions, at a KL of {new.kl:.1f} nats an answer; a sharper start has "
            f"{sharp:+.2f}; {known}; {self._wanted()}"
        )
        curves = (Curve("yours", held.means), *(c for r in self.results for c in r.curves()))
        return Finding(
            self.title,
            symptom is None,
            said if symptom is None else f"{symptom} ({said}.)",
            (*notes.plain(), *looks(old, new)),
            Picture(self.title, "answers", "mean gold", curves, round(old.gold + self.gain, 2)),
            score=new.gold - old.gold,
            used=held.used,
            unit="tokens",
            samples=tuple(
                f"{when} {question.text} → {text} (gold {gold:+.1f})"
                for question, *both in zip(world.hidden, old.texts, new.texts, strict=False)
                for when, (text, gold) in zip(("before:", "after: "), both, strict=True)
            ),
            processor_seconds=seconds,
        )

    def _wanted(self) -> str:
        return (
            f"a gain of {self.gain:g}, {self.margin:g} above a sharper start, and at most "
            f"{self.nats:g} nats pass"
        )

    def _supplies(self, world: Helpful, pairs: task.Comparisons, draw: random.Random) -> Supplies:
        by_prompt = {tuple(world.prompt(question)): question for question in world.asked}

        def golds(prompts: Ids, answers: Ids) -> Sequence[float]:
            questions = [by_prompt[tuple(row)] for row in prompts.tolist()]
            return world.golds(questions, torch.from_numpy(answers))

        words = world.words
        return Supplies(
            world.prompts(world.asked).numpy(),
            pairs.chosen.numpy(),
            pairs.rejected.numpy(),
            (words.pad_id, words.bos_id, words.eos_id),
            len(words),
            task.ANSWER,
            self.tokens,
            random.Random(draw.randrange(2**31)),
            golds,
        )

    def _accuracy(
        self,
        session: Session,
        held: Supplies,
        world: Helpful,
        policy: LSTMPolicy,
        draw: random.Random,
    ) -> float:
        """The share of new pairs, to hidden questions, in which the better answer scores more."""
        pairs = task.compared(world, policy, world.hidden, KEPT, draw)
        swapped = torch.tensor([draw.random() < 0.5 for _ in range(KEPT)])
        first = torch.where(swapped[:, None], pairs.rejected, pairs.chosen)
        second = torch.where(swapped[:, None], pairs.chosen, pairs.rejected)
        left, right = asked(session, held, torch.cat([first, second])).chunk(2)
        is_better = pairs.agreed != swapped  # the first one, in the hidden judgement
        return ((left > right) == is_better).double().mean().item()

    def _symptom(self, old: Spoken, new: Spoken, sharp: float) -> str | None:
        """None where it passes; else what the numbers point to."""
        gained = new.gold - old.gold
        if new.kl > self.nats:
            hacked = (
                "the reward model is over-optimised, its score went from "
                f"{old.score:.1f} to {new.score:.1f}"
                if new.score > old.score
                else "and its score did not even rise"
            )
            return (
                f"The policy went {new.kl:.1f} nats and the budget is {self.nats:g}: {hacked}. "
                "Take β (log π − log π_ref) of each token off the reward, against the policy as it "
                "was given, or raise β."
            )
        if gained >= self.gain and new.gold >= sharp + self.margin:
            return None
        if new.score < old.score:
            return (
                "The policy's answers score less than before in your own reward model: the loss "
                "or the advantage has the wrong sign, or the logits score another token."
            )
        if gained < 0.5 * self.gain and new.score - old.score > 1.0:
            return (
                "The score of the reward model rose and gold did not: it is over-optimised. More "
                "comparisons make it better, a larger β keeps the policy where it is right."
            )
        return (
            "The answers are hardly better: look at the size of the steps, at the share of clipped "
            "tokens, and at β."
        )
