"""Arms that push a puck, in the judge's hands: one episode each, as numbers and as a film."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bookkit.builds.motion import MotionDisguise
from nbkit.control.environments import VectorEnvAdapter
from nbkit.envs.arm_core import ArmCore
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.push import VectorPush
from nbkit.envs.rendering import SceneRenderer
from nbkit.plots import Film, film

REWARD = "potential"
STIRRED_M = 0.005  # a puck that has gone this far was pushed
EPISODES_SHOWN, HELD_FRAMES = 3, 10  # of a part of a film; how long the end of an episode stands
SIZE = (450, 600)  # height and width of a frame, in pixels
Act = Callable[[NDArray[np.float32]], Tensor]


def arms(num_envs: int, gamma: float) -> VectorEnvAdapter:
    """N arms, each with a puck and a target; the discount is that of the reward's potential."""
    return VectorEnvAdapter(VectorPush(num_envs, reward=REWARD, gamma=gamma))


def core_of(env: VectorEnvAdapter) -> ArmCore:
    """The arms themselves, which the judge looks at and a learner's process never sees."""
    vector = env.vector_env
    assert isinstance(vector, ArmVectorEnv)
    return vector.core


@dataclass(frozen=True)
class Trials:
    """One episode in each of N environments.

    Attributes:
        won: (N,) whether the puck came to its target.
        first_m: (N,) how far it was from it.
        last_m: (N,) how far in the end.
        moved_m: (N,) how far it has gone from its first place, in the end.

    """

    won: NDArray[np.bool_]
    first_m: NDArray[np.float64]
    last_m: NDArray[np.float64]
    moved_m: NDArray[np.float64]

    @property
    def said(self) -> str:
        """The share of successes, and what became of the puck, in words."""
        return (
            f"in {self.won.mean():.0%} of {len(self.won)} fresh episodes the puck came to its "
            f"target; it was {100 * self.first_m.mean():.1f} cm from it on average, and "
            f"{100 * self.last_m.mean():.1f} cm in the end"
        )

    def looks(self) -> list[str]:
        """What a failure looks like from outside."""
        stirred = (self.moved_m > STIRRED_M).mean()
        if stirred < 0.5:
            return [
                f"the puck was moved in {stirred:.0%} of the episodes: the tool does not come to it"
            ]
        lost = (self.last_m > self.first_m) & ~self.won
        if lost.mean() > 0.2:
            return [
                f"in {lost.mean():.0%} of the episodes the puck ended farther from its target than "
                "it began: the tool hits it from the wrong side, or too fast"
            ]
        return []


def play(env: VectorEnvAdapter, act: Act, worn: MotionDisguise, seed: int) -> Trials:
    """Play one episode in each environment.

    Args:
        env: arms.
        act: from disguised observations (N, O) to disguised actions (N, A).
        worn: the disguise.
        seed: of the targets.

    """
    observations, core = env.reset(seed), core_of(env)
    begun, target = core.qpos[:, 2:].copy(), core.target.copy()
    first = np.linalg.norm(target - begun, axis=1)
    running, won = np.ones(env.num_envs, dtype=bool), np.zeros(env.num_envs, dtype=bool)
    last, moved = first.copy(), np.zeros(env.num_envs)
    while running.any():
        step = env.step(worn.meant(act(worn.observation(observations))))
        puck = core.qpos[:, 2:]
        last[running] = np.linalg.norm(target - puck, axis=1)[running]
        moved[running] = np.linalg.norm(puck - begun, axis=1)[running]
        won |= running & step.terminated.numpy()
        running &= ~(step.terminated | step.truncated).numpy()
        observations = step.next_observations
    return Trials(won, first, last, moved)


@dataclass(frozen=True)
class Part:
    """The frames of some episodes of one agent.

    Attributes:
        frames: pictures.
        words: what stands under each.
        won: how many episodes brought the puck to its target.

    """

    frames: list[NDArray[np.uint8]]
    words: list[str]
    won: int


def filmed(
    act: Act, worn: MotionDisguise, gamma: float, seed: int, when: str, *, every: int = 1
) -> Part:
    """Play `EPISODES_SHOWN` episodes with one arm and draw them from the side.

    Args:
        act: from disguised observations (1, O) to disguised actions (1, A).
        worn: the disguise.
        gamma: of the arms.
        seed: of the first target.
        when: begins the words under a frame.
        every: steps from one frame to the next.

    Raises:
        NoRenderer: this machine cannot draw.

    """
    part, env = Part([], [], 0), arms(1, gamma)
    renderer = SceneRenderer(core_of(env).models[0], *SIZE, smooth=True)
    try:
        for number in range(EPISODES_SHOWN):
            head = f"{when}, {number + 1}"
            part = _episode(part, renderer, env, act, worn, seed + number, head, every)
    finally:
        renderer.close()
    return part


def _episode(
    part: Part,
    renderer: SceneRenderer,
    env: VectorEnvAdapter,
    act: Act,
    worn: MotionDisguise,
    seed: int,
    head: str,
    every: int,
) -> Part:
    """The part with one more episode."""
    observations, core, number = env.reset(seed), core_of(env), 0
    frames, words, step = [], [], None
    while True:
        won = step is not None and bool(step.terminated[0])
        ended = won or (step is not None and bool(step.truncated[0]))
        if number % every == 0 or ended:
            frames.append(renderer.render(core.models[0], core.datas[0], "side"))
            gap = f"{100 * core.task.distance_m(core)[0]:.1f} cm to go"
            words.append(f"{head}: step {number}, {'there' if won else gap}")
        if ended:
            break
        step = env.step(worn.meant(act(worn.observation(observations))))
        observations, number = step.next_observations, number + 1
    frames += [frames[-1]] * HELD_FRAMES
    words += [words[-1]] * HELD_FRAMES
    return Part(part.frames + frames, part.words + words, part.won + won)


def as_film(before: Part, after: Part) -> Film:
    """Both parts as one film."""
    caption = (
        f"Your arm and {EPISODES_SHOWN} pucks (green), each to go to its target (red), the same "
        f"ones twice: before training {before.won} came there, after training {after.won}."
    )
    return film(
        before.frames + after.frames,
        caption=caption,
        alt=caption,
        words=before.words + after.words,
    )
