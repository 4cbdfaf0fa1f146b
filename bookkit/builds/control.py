"""Environments with choices, in the judge's hands; and what it asks the learner's agent there."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from bookkit.builds.holding import HeldEnv, WornObservation
from bookkit.builds.session import Session, Stopped
from nbkit.control.environments import ControlEnv


@dataclass(frozen=True)
class Disguise(WornObservation):
    """Of a world with choices.

    Attributes:
        actions: the learner's action a is the world's `actions[a]`.

    """

    actions: Tensor

    def meant(self, actions: Tensor) -> Tensor:
        """The world's numbers of the learner's (N,)."""
        return self.actions[actions]


def disguise(env: ControlEnv, draw: random.Random | None) -> Disguise:
    """Draw a disguise for an environment; None: the world as it is."""
    order, numbers = list(range(env.observation_size)), list(range(_choices(env)))
    signs = [1.0] * len(order)
    if draw is not None:
        draw.shuffle(order)
        draw.shuffle(numbers)
        signs = [draw.choice((-1.0, 1.0)) for _ in order]
    return Disguise(torch.tensor(order), torch.tensor(signs), torch.tensor(numbers))


def _choices(env: ControlEnv) -> int:
    assert isinstance(env.action_space, spaces.Discrete)
    return int(env.action_space.n)


@dataclass
class Held(HeldEnv):
    """One whose actions are choices.

    Attributes:
        same: of the steps in which all environments showed the same, how many got one action in
            all of them, and how many there were.
        frozen: of such steps after another one, both with more than one action, how many repeated
            every action, and how many there were.

    """

    same: list[int] = field(default_factory=lambda: [0, 0])
    frozen: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.counts = np.zeros(_choices(self.env), dtype=np.int64)
        self._before: Tensor | None = None  # actions of the last step, where they were mixed

    def actions(self) -> dict[str, int]:
        """How many there are."""
        return {"num_actions": len(self.counts)}

    def checked(self, found: NDArray[Any] | None) -> Tensor:
        """Actions (N,) int64 in range; `Stopped` where they are none."""
        return checked_actions(found, self.env.num_envs, len(self.counts))

    def watch(self, seen: Tensor, actions: Tensor) -> None:
        """Count the actions, and compare those of environments that look alike."""
        self.counts += np.bincount(actions.numpy(), minlength=len(self.counts))
        if self.env.num_envs == 1 or not bool((seen == seen[0]).all()):
            return
        one = bool((actions == actions[0]).all())
        self.same[0] += one
        self.same[1] += 1
        if self._before is not None and not one:
            self.frozen[0] += bool((actions == self._before).all())
            self.frozen[1] += 1
        self._before = None if one else actions

    def alike(self) -> str | None:
        """Whether all environments were given one action, step after step."""
        all_one, steps = self.same
        many = f"all {self.env.num_envs} environments"
        if self.env.num_envs > 3 and steps >= 8 and all_one == steps and self.counts.min() > 0:
            return (
                f"In each of {steps} steps {many} got the same action, "
                "though the action changed from step to step: one seed, or one draw, serves them "
                "all. Draw one action for each row."
            )
        repeated, mixed = self.frozen
        if self.env.num_envs > 8 and mixed >= 20 and repeated > 0.6 * mixed:
            return (
                f"In {repeated} of {mixed} steps {many} got the very "
                "actions of the step before, though they differ among each other: the generator is "
                "seeded anew in each step. Seed it once, before training."
            )
        if steps >= 8 and np.count_nonzero(self.counts) == 1:
            return (
                f"Your file took action {int(self.counts.argmax())} in all {self.used:,} steps: "
                "actions are drawn "
                "from the policy during training, not the most likely one taken."
            )
        return None


def checked_actions(found: NDArray[Any] | None, num_envs: int, choices: int) -> Tensor:
    """Actions (N,) int64 in range.

    Raises:
        Stopped: they are not; the sentence says what they are.

    """
    if found is None or found.dtype != np.int64 or found.shape != (num_envs,):
        shape = None if found is None else found.shape
        raise Stopped(f"`env.step` wants {num_envs} whole numbers; it got the shape {shape}")
    if found.min() < 0 or found.max() >= choices:
        raise Stopped(
            f"`env.step` wants actions from 0 to {choices - 1}; it got {found.min()} to "
            f"{found.max()}"
        )
    return torch.from_numpy(found)


def look(
    session: Session, observations: NDArray[np.float32], choices: int
) -> tuple[Tensor, Tensor]:
    """Ask the learner's agent: logits (N, A) and values (N,) of observations (N, O), A choices.

    Raises:
        Stopped: other shapes, or numbers that are not finite.

    """
    found = session.call("look", arrays={"observations": observations}).arrays
    logits, values = found.get("logits"), found.get("values")
    if logits is None or values is None or logits.ndim != 2 or values.shape != logits.shape[:1]:
        shapes = [None if part is None else part.shape for part in (logits, values)]
        raise Stopped(
            "your agent returns logits (N, A) and values (N,) of observations (N, O); for "
            f"{observations.shape} it returned the shapes {shapes[0]} and {shapes[1]}"
        )
    if logits.shape != (len(observations), choices):
        raise Stopped(
            f"your agent returned logits of the shape {logits.shape} for {len(observations)} "
            f"observations and {choices} actions: return a row an observation, a column an action"
        )
    if logits.dtype != np.float32 or not np.isfinite(logits).all():
        raise Stopped(
            "your agent's logits are not finite: training has diverged, so look for a division by "
            "0, a logarithm of 0, or steps that are too large"
        )
    return torch.from_numpy(logits), torch.from_numpy(values)


def play(
    env: ControlEnv,
    worn: Disguise,
    act: Callable[[NDArray[np.float32]], Tensor],
    *,
    episodes: int,
    seed: int,
) -> list[float]:
    """Returns of whole episodes, equally many an environment.

    Args:
        env: fresh.
        worn: the disguise of the training.
        act: from disguised observations to disguised actions (N,).
        episodes: rounded up to a multiple of N.
        seed: drawn after the training has ended.

    """
    observations = env.reset(seed)
    wanted = -(-episodes // env.num_envs)
    totals, played = torch.zeros(env.num_envs).double(), torch.zeros(env.num_envs).long()
    returns: list[float] = []
    while bool((played < wanted).any()):
        actions = act(worn.observation(observations))
        step = env.step(worn.meant(actions))
        totals += torch.where(step.valid, step.rewards, 0.0)
        ended = (step.terminated | step.truncated) & step.valid
        returns += totals[ended & (played < wanted)].tolist()
        played += ended.long()
        totals[ended] = 0.0
        observations = step.next_observations
    return returns
