"""Probes with continuous actions: what the trained agent says, and what it did in training."""

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bookkit.builds.motion import HeldMotion, look, motion_disguise
from bookkit.builds.probing import Probe, order
from bookkit.builds.session import Session

STEADY = 1e-3  # what an answer may change when it is asked for again
STRANGE = 3.0  # observations in whose company it is asked again, as a factor


@dataclass(frozen=True)
class MotionAnswers:
    """What the trained agent says of the observations of a probe; actions are the world's.

    Attributes:
        actions: (rows, A).
        values: (rows,).
        before: (rows, A), of the same agent before its training.
        held: the environment, with what was done in it.
        acted: (rows, A), the mean of what it did in the last steps of training where it saw the
            same; nan where it did not.
        done: (steps, A), all that it did in the last steps.
        unsteady: by how much an answer changed when it was asked for again, alone and after others.

    """

    actions: Tensor
    values: Tensor
    before: Tensor
    held: HeldMotion
    acted: Tensor
    done: Tensor
    unsteady: float

    def odd(self) -> str | None:
        """Actions that are not drawn as they should be, or answers that change."""
        if self.unsteady > STEADY:
            return (
                f"Asked again about the same observation, your agent answers {self.unsteady:.2g} "
                "apart: its answer depends on what else it is shown. The moments of the "
                "observations change between updates in training, and not when the agent is asked."
            )
        return self.held.alike()


def ask(
    session: Session, probe: Probe, settings: Mapping[str, Any], draw: random.Random
) -> MotionAnswers | None:
    """Train on a probe, once with no step and once with all, from one seed."""
    seed, env = draw.randrange(2**31), probe.make()
    # Observations of a probe are one number, whose sign is the question; actions are disguised.
    plain, hidden = motion_disguise(env, None), motion_disguise(env, draw)
    worn = replace(plain, axes=hidden.axes, action_signs=hidden.action_signs)
    seen = np.array(probe.seen, dtype=np.float32)
    task = secrets.token_hex(4)
    untrained = HeldMotion(env, 0, 0, worn)
    told = session.call(
        "train",
        order(task, {**settings, "total_steps": 0}, seed, untrained),
        answer=untrained.answer,
    )
    if probe.part and probe.part in told.data.get("without", []):
        return None
    before, _ = look(session, seen, untrained.axes)
    held = HeldMotion(probe.make(), draw.randrange(2**31), int(settings["total_steps"]), worn)
    session.call("train", order(task, settings, seed, held), answer=held.answer)
    actions, values = look(session, seen, held.axes)
    done = worn.meant(held.done())
    return MotionAnswers(
        worn.meant(actions),
        values,
        worn.meant(before),
        held,
        _where(held, seen, done),
        done,
        _changes(session, seen, held.axes, actions, values),
    )


def _where(held: HeldMotion, seen: np.ndarray, done: Tensor) -> Tensor:
    """The mean of what was done where each row was seen, (rows, A)."""
    shown = torch.cat([observations for observations, _ in held.recent])
    rows = [done[(shown == torch.from_numpy(row)).all(1)] for row in seen]
    return torch.stack([part.mean(0) for part in rows])


def _changes(
    session: Session, seen: np.ndarray, axes: int, actions: Tensor, values: Tensor
) -> float:
    """The largest change of an answer when each row is asked about alone, after strange ones."""
    strange = STRANGE * np.repeat(seen, 50, axis=0) + 1.0
    look(session, strange.astype(np.float32), axes)
    largest = 0.0
    for row, action, value in zip(seen, actions, values, strict=True):
        again, worth = look(session, row[None], axes)
        change = torch.cat([again[0] - action, worth - value]).abs().max()
        largest = max(largest, change.item())
    return largest
