"""Environments with continuous actions, in the judge's hands; and what it asks the agent there."""

import random
from collections import deque
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

RECENT = 100  # steps of all environments that are kept
EQUAL = 1e-5  # actions that differ by less are one; a row's place in a batch changes its last bits
ODD_SHARE, MANY = 0.6, 10  # of the steps, and how many there must be
LIMIT = 0.95  # an action beyond this lies at its limit
FREE = 0.999  # a number of an action below this is not at its limit


@dataclass(frozen=True)
class MotionDisguise(WornObservation):
    """Of a world whose actions are numbers from -1 to 1.

    Attributes:
        axes: the world's action i is number `axes[i]` of the learner's.
        action_signs: 1 or -1 a number of the world's action.

    """

    axes: Tensor
    action_signs: Tensor

    def meant(self, actions: Tensor) -> Tensor:
        """The world's (N, A) of the learner's (N, A)."""
        return actions[:, self.axes] * self.action_signs

    def shown(self, actions: Tensor) -> Tensor:
        """The learner's (N, A) of the world's: undoes `meant`."""
        return (actions * self.action_signs)[:, self.axes.argsort()]


def motion_disguise(env: ControlEnv, draw: random.Random | None) -> MotionDisguise:
    """Draw a disguise for an environment; None: the world as it is."""
    places = (env.observation_size, _axes(env))
    (order, signs), (axes, turned) = (_drawn(size, draw) for size in places)
    return MotionDisguise(order, signs, axes, turned)


def _drawn(size: int, draw: random.Random | None) -> tuple[Tensor, Tensor]:
    """A random order of so many places, and a sign for each."""
    order, signs = list(range(size)), [1.0] * size
    if draw is not None:
        draw.shuffle(order)
        signs = [draw.choice((-1.0, 1.0)) for _ in order]
    return torch.tensor(order), torch.tensor(signs)


def _axes(env: ControlEnv) -> int:
    space = env.action_space
    assert isinstance(space, spaces.Box)
    assert bool((space.low == -1.0).all() and (space.high == 1.0).all())
    return int(space.shape[0])


@dataclass
class HeldMotion(HeldEnv):
    """One whose actions are A numbers from -1 to 1.

    Attributes:
        same: of the steps in which all environments showed the same, and most actions were not at
            a limit, how many got one action in all of them, and how many there were.
        resting: of such steps after another one, both with one action, how many repeated it, and
            how many there were.
        frozen: the same of steps with more than one action: how many repeated every one.
        recent: what was seen (N, O) and done (N, A, the learner's numbers) in the last steps.

    """

    same: list[int] = field(default_factory=lambda: [0, 0])
    resting: list[int] = field(default_factory=lambda: [0, 0])
    frozen: list[int] = field(default_factory=lambda: [0, 0])
    recent: deque[tuple[Tensor, Tensor]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.axes = _axes(self.env)
        # Of the last step in which all looked alike: whether there was one action, and the actions.
        self._before: tuple[bool, Tensor] | None = None

    def actions(self) -> dict[str, int]:
        """How many numbers an action has."""
        return {"action_size": self.axes}

    def checked(self, found: NDArray[Any] | None) -> Tensor:
        """Actions (N, A) within their bounds; `Stopped` where they are none."""
        shape = (self.env.num_envs, self.axes)
        if found is None or found.shape != shape or found.dtype != np.float32:
            told = None if found is None else found.shape
            raise Stopped(f"`env.step` wants actions (N, A) = {shape}; it got the shape {told}")
        outside = _outside(found)
        if outside:
            raise Stopped(f"`env.step` wants actions from -1 to 1; {outside}")
        return torch.from_numpy(found)

    def watch(self, seen: Tensor, actions: Tensor) -> None:
        """Keep the last steps, and compare the actions of environments that look alike."""
        self.recent.append((seen, actions))
        free = (actions.abs() < FREE).float().mean() > ODD_SHARE  # at a limit all draws are one
        if self.env.num_envs == 1 or not free or not bool((seen == seen[0]).all()):
            self._before = None
            return
        one = bool((actions - actions[0]).abs().max() <= EQUAL)
        self.same[0] += one
        self.same[1] += 1
        if self._before is not None and self._before[0] == one:
            pairs = self.resting if one else self.frozen
            pairs[0] += bool((actions - self._before[1]).abs().max() <= EQUAL)
            pairs[1] += 1
        self._before = one, actions

    def alike(self) -> str | None:
        """Whether the actions of a step, or of neighbouring steps, are one."""
        (one, steps), (repeated, pairs) = self.same, self.resting
        many = f"all {self.env.num_envs} environments"
        if self.env.num_envs < 4 or steps < MANY:
            return None
        if one == steps and repeated > ODD_SHARE * pairs:
            return (
                f"In each of {steps} steps {many} got the same action, and in {repeated} it was "
                "that of the step before: in training actions are drawn from the Gaussian, not its "
                "mean taken."
            )
        if one == steps:
            return (
                f"In each of {steps} steps {many} got the same action, though the action changed "
                "from step to step: one seed, or one draw, serves them all. Draw noise of the "
                "shape (N, A)."
            )
        repeated, pairs = self.frozen
        if pairs >= MANY and repeated > ODD_SHARE * pairs:
            return (
                f"In {repeated} of {pairs} steps {many} got the very actions of the step before, "
                "though they differ among each other: the generator is seeded anew in each step. "
                "Seed it once, before training."
            )
        return None

    def done(self) -> Tensor:
        """The actions of the recent steps, (rows, A); a row without one where there is none."""
        return torch.cat([actions for _, actions in self.recent])


def _outside(found: NDArray[np.float32]) -> str:
    """What is not finite or beyond the bounds, in words; "" where all is within."""
    if not np.isfinite(found).all():
        return "it got numbers that are not finite: training has diverged"
    largest = float(np.abs(found).max(initial=0.0))
    if largest > 1.0 + EQUAL:
        return f"it got {largest:.2f}: bound them, by tanh or by a clip"
    return ""


def look(session: Session, observations: NDArray[np.float32], axes: int) -> tuple[Tensor, Tensor]:
    """Ask the learner's agent: actions (N, A) and values (N,) of observations (N, O).

    Raises:
        Stopped: other shapes, numbers that are not finite, or actions beyond their bounds.

    """
    found = session.call("look", arrays={"observations": observations}).arrays
    actions, values = found.get("actions"), found.get("values")
    wanted = (len(observations), axes)
    if actions is None or values is None or actions.shape != wanted or values.shape != wanted[:1]:
        shapes = [None if part is None else part.shape for part in (actions, values)]
        raise Stopped(
            f"your agent returns actions (N, A) and values (N,) of observations (N, O); for "
            f"{observations.shape} and {axes} numbers an action it returned the shapes "
            f"{shapes[0]} and {shapes[1]}"
        )
    if actions.dtype != np.float32 or not np.isfinite(values).all():
        raise Stopped("your agent's values are not finite: training has diverged")
    outside = _outside(actions)
    if outside:
        raise Stopped(
            f"your agent's actions must lie between -1 and 1; {outside}, here as in training"
        )
    return torch.from_numpy(actions), torch.from_numpy(values)
