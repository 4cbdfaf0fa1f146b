"""Probes: policies that are trained where the best one is known exactly."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bookkit.builds.enumerated import ANSWER, SIZE, WIDTH, Exact, Score, Tiny, best
from bookkit.builds.session import Session
from bookkit.builds.supplies import EARLY, OFTEN, Ids, Supplies
from bookkit.builds.weights import loaded, unchanged
from nbkit.text.policies import LSTMPolicy

TOKENS = 200_000  # of a probe; none needs as many
SOME, FAR = 5, 0.5  # batches, nats: with fewer, nothing is said of whose answers they are
OWN = 0.3  # of the KL: the policy's own answers show about all of it


@dataclass(frozen=True)
class Outcome:
    """What a training on a probe came to.

    Attributes:
        start: the policy as it began.
        end: as it came back.
        best: the best policy for this score and this beta.
        values: what the learner's file says of the two prompts, (2,); None: it says nothing.
        held: the judge's counts.
        amiss: what they say is amiss; None: nothing.

    """

    start: Exact
    end: Exact
    best: Exact
    values: Tensor | None
    held: Supplies
    amiss: str | None

    def odd(self) -> str | None:
        """What the judge's counts say is amiss, as a sentence."""
        return self.amiss


@dataclass(frozen=True)
class Probe:
    """One score, one question.

    Attributes:
        question: what a file must be able to do.
        score: made for a world and one of its words.
        symptom: None where the outcome is right; else the sentence that names the fault.
        settings: what differs from the stage's settings.
        noise: standard deviation of what each score holds for no merit of the answer.

    """

    question: str
    score: Callable[[Tiny, int], Score]
    symptom: Callable[[Outcome], str | None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    noise: float = 0.0
    part: ClassVar[str] = ""  # it asks about no part that a method could lack


def ask(
    session: Session, probe: Probe, settings: Mapping[str, Any], draw: random.Random
) -> Outcome:
    """Train on a probe, and list all answers of what comes back."""
    tiny = Tiny.drawn(draw)
    score = probe.score(tiny, int(tiny.order[draw.randrange(3, SIZE)]))

    def told(prompts: Ids, answers: Ids) -> list[float]:
        found = score(torch.from_numpy(prompts), torch.from_numpy(answers)).tolist()
        return [value + draw.gauss(0.0, probe.noise) for value in found]

    none = np.zeros((0, tiny.prompts.shape[1] + ANSWER), dtype=np.int64)
    held = Supplies(
        tiny.prompts.numpy(), none, none, tiny.ids, SIZE, ANSWER, TOKENS, draw, told, told
    )
    reply = session.call(
        "train",
        {
            "task": f"probe {draw.randrange(2**31)}",
            "settings": dict(settings),
            "seed": draw.randrange(2**31),
            "width": WIDTH,
            "world": held.describe(),
            "judges_scores": True,
        },
        {name: x.numpy() for name, x in tiny.policy.state_dict().items()},
        answer=held.answer,
    )
    trained, values = loaded(tiny.policy, reply.arrays), None
    if reply.data.get("values"):
        found = session.call("values", arrays={"ids": tiny.prompts.numpy()}).arrays["values"]
        values = torch.from_numpy(found)[:, -1]
    beta, scores = float(settings["kl_coefficient"]), tiny.scored(score)
    first, last = tiny.logprobs(tiny.policy), tiny.logprobs(trained)
    start, end, top = (
        Exact.of(logp, first, scores, beta) for logp in (first, last, best(first, scores, beta))
    )
    amiss = counted(held, same=unchanged(tiny.policy, trained)) or foreign(
        trained, tiny.policy, held, end.kl
    )
    return Outcome(start, end, top, values, held, amiss)


def counted(held: Supplies, *, same: bool) -> str | None:
    """What the judge's own counts say is amiss; None: nothing."""
    if not held.means:
        return (
            "No answers were handed over: sample from the policy, and call `world.sampled` with "
            "each batch before you learn from it."
        )
    if held.alike == EARLY:
        return (
            f"In the first {EARLY} batches all answers to a prompt are the same: the most likely "
            "token was taken, or one draw served all rows. Draw a token for each row."
        )
    if held.again:
        return (
            f"{held.again} of the first {OFTEN} batches had been handed over before: sample anew "
            "from the policy as it is now."
        )
    if held.beyond:
        return (
            f"In {held.beyond} answers the mask counts places behind the end: it ends with the "
            "EOS, and what stands behind it is padding."
        )
    if held.short:
        return (
            f"In {held.short} answers the mask leaves out a token: the EOS belongs to the answer, "
            "and a token before it counts whatever its id."
        )
    if same:
        return (
            "The weights are those that the policy began with: no step was taken, or the "
            "optimiser holds the parameters of a copy."
        )
    return None


@torch.no_grad()
def drift(trained: LSTMPolicy, base: LSTMPolicy, held: Supplies) -> float:
    """Mean of log π − log π_ref of the answers that were handed over last, nats an answer.

    Of answers that the policy itself has sampled this estimates its KL.
    """
    assert held.last is not None
    ids = torch.from_numpy(held.last)
    mask = torch.from_numpy(held.mask_of(held.last))[:, held.width :]

    def logprobs(policy: LSTMPolicy) -> Tensor:
        logits = policy(ids[:, :-1])[:, held.width - 1 :]
        return logits.log_softmax(-1).gather(-1, ids[:, held.width :, None])[:, :, 0]

    return torch.where(mask, logprobs(trained) - logprobs(base), 0.0).sum(1).mean().item()


def foreign(trained: LSTMPolicy, base: LSTMPolicy, held: Supplies, kl: float) -> str | None:
    """Whether the answers that were handed over last are those of another policy."""
    if len(held.means) < SOME or kl < FAR or drift(trained, base, held) > OWN * kl:
        return None
    return (
        "The answers that were handed over last are not the policy's own: hand over every batch "
        "that is learned from, sampled from the policy as it is."
    )
