"""Worlds so small that a failure says where the fault is, and an agent that trains on them."""

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from bookkit.builds.control import Held, disguise, look
from bookkit.builds.holding import HeldEnv
from bookkit.builds.session import Session
from nbkit.control.environments import ControlEnv


@dataclass(frozen=True)
class Answers:
    """What the trained agent says of the observations of a probe.

    Attributes:
        probabilities: (rows, A).
        values: (rows,).
        before: (rows, A) of the same agent before its training.
        held: the environment, with its counts.
        beside: probabilities (rows, A) after another training from the same seed, with the
            settings `beside` of the probe; None where it has none.

    """

    probabilities: Tensor
    values: Tensor
    before: Tensor
    held: Held
    beside: Tensor | None = None

    def odd(self) -> str | None:
        """What is odd whatever the probe asks, as a sentence."""
        return self.held.alike()


@dataclass(frozen=True)
class Probe:
    """One world, one question.

    Attributes:
        question: what an agent must be able to do.
        make: the environment.
        seen: the observations that the agent is asked about, (rows, O).
        symptom: None where the answers are right; else the sentence that names the fault.
        settings: what differs from the stage's settings.
        beside: what differs from these in a second training, to compare with; None: there is none.
        part: of a method, that the probe asks about, and that the learner's may not have.

    """

    question: str
    make: Callable[[], ControlEnv]
    seen: tuple[tuple[float, ...], ...]
    symptom: Callable[[Any], str | None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] | None = None
    part: str = ""


def ask(
    session: Session, probe: Probe, settings: Mapping[str, Any], draw: random.Random
) -> Answers:
    """Train on a probe of choices, once with no step and once with all, from one seed."""
    seed, env = draw.randrange(2**31), probe.make()
    # Observations of a probe are one number, whose sign is the question; actions change numbers.
    plain, hidden = disguise(env, None), disguise(env, draw)
    worn = replace(plain, actions=hidden.actions)
    real = hidden.actions.argsort()  # the learner's number of each of the world's actions
    seen = np.array(probe.seen, dtype=np.float32)
    task, episodes = secrets.token_hex(4), draw.randrange(2**31)

    def trained(changes: Mapping[str, Any]) -> tuple[Tensor, Tensor, Held]:
        """Probabilities and values after a training, and the environment of it."""
        own = {**settings, **changes}
        held = Held(probe.make(), episodes, int(own["total_steps"]), worn)
        session.call("train", order(task, own, seed, held), answer=held.answer)
        logits, values = look(session, seen, len(worn.actions))
        return logits.softmax(-1)[:, real], values, held

    before, _, _ = trained({"total_steps": 0})
    beside = None if probe.beside is None else trained(probe.beside)[0]
    probabilities, values, held = trained({})
    return Answers(probabilities, values, before, held, beside)


def order(task: str, settings: Mapping[str, Any], seed: int, held: HeldEnv) -> dict[str, Any]:
    """The arguments of a call of the learner's `train`."""
    return {"task": task, "settings": dict(settings), "seed": seed, "env": held.describe()}
