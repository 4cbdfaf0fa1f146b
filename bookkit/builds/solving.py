"""A stage that trains on a task of gymnasium and passes by the score on fresh episodes."""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bookkit.builds.control import Disguise, Held, disguise, look, play
from bookkit.builds.notes import Notes
from bookkit.builds.physics import Physics, Ranges
from bookkit.builds.probing import order
from bookkit.builds.recorded import Recorded
from bookkit.builds.session import Session
from bookkit.builds.verdict import Curve, Finding, Picture
from nbkit.control.environments import (
    ControlEnv,
    VectorEnvAdapter,
    make_control_env,
    single_env,
)
from nbkit.plots import Film, film

EPISODES, JUDGED_ENVS = 100, 50
FILM_STEPS = 500
FRAMES = 110  # of a film, at most


@dataclass(frozen=True)
class TaskStage:
    """Train, then play `EPISODES` fresh episodes with the most likely actions.

    Attributes:
        title: of the stage.
        env_id: of gymnasium; its actions are choices.
        settings: of the training; the learner's `SETTINGS[env_id]` may change all but the steps.
        num_envs: N.
        threshold: the mean return that passes.
        results: curves to draw beside the learner's.
        physics: factors of the world's numbers, from which each run draws its own; empty: none.

    """

    title: str
    env_id: str
    settings: Mapping[str, Any]
    num_envs: int
    threshold: float
    results: tuple[Recorded, ...] = ()
    physics: Ranges = field(default_factory=dict)

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Train, judge, and draw the film of the same episode before and after."""
        physics = Physics.drawn(self.physics, draw)
        env = self._made(self.num_envs, physics)
        worn = disguise(env, draw)
        seed, notes = draw.randrange(2**31), Notes()
        before = session.meter.seconds
        first = self._recorded(session, worn, seed, physics) if films else None
        held = Held(env, draw.randrange(2**31), int(self.settings["total_steps"]), worn)
        words = order(self.env_id, self.settings, seed, held)
        session.call("train", words, answer=held.answer, note=notes.take)
        env.close()
        seconds = session.meter.seconds - before

        def act(observations: NDArray[np.float32]) -> torch.Tensor:
            return look(session, observations, len(worn.actions))[0].argmax(-1)

        fresh = self._made(JUDGED_ENVS, physics)
        returns = play(fresh, worn, act, episodes=EPISODES, seed=draw.randrange(2**31))
        fresh.close()
        score = float(np.mean(returns))
        passed = score >= self.threshold
        said = (
            f"mean return {score:.1f} over {len(returns)} fresh episodes; {self.threshold:g} passes"
        )
        looks = [*([held.alike()] if not passed else []), *self._unused(held)]
        # Where every episode lasts to its limit, all returns are equal and this says nothing.
        looks += notes.findings(skip=("explained_variance",) if passed else ())
        return Finding(
            self.title,
            passed,
            said,
            tuple(sentence for sentence in looks if sentence),
            self._picture(held),
            self._film(session, worn, first, physics) if films else None,
            score,
            used=held.used,
            processor_seconds=seconds,
        )

    def _unused(self, held: Held) -> list[str]:
        """What the judge's own counts say of the training."""
        found = []
        if held.used < 0.5 * held.budget:
            found.append(
                f"{held.used:,} of {held.budget:,} steps were used: the training ends early"
            )
        curve = held.curve()
        if len(curve) > 4:
            best, last = max(score for _, score in curve), curve[-1][1]
            rise = best - curve[0][1]
            if rise > 0 and best - last > 0.4 * rise:
                found.append(
                    f"the mean return was {best:.0f} and fell to {last:.0f}: steps that are too "
                    "large "
                    "late in training; let the learning rate fall to 0 over the run"
                )
        elif not held.finished:
            found.append("no episode ended during training")
        return found

    def _picture(self, held: Held) -> Picture:
        curves = [Curve("yours", held.curve())]
        curves += [curve for result in self.results for curve in result.curves()]
        words = "environment steps", "mean return of the last 100 episodes"
        return Picture(self.env_id, *words, tuple(curves), self.threshold)

    def _made(self, num_envs: int, physics: Physics) -> ControlEnv:
        """N environments with the numbers of this run."""
        env = make_control_env(self.env_id, num_envs)
        if physics.factors:
            assert isinstance(env, VectorEnvAdapter)
            physics.put_into(env.vector_env)
        return env

    def _recorded(self, session: Session, worn: Disguise, seed: int, physics: Physics) -> "Episode":
        """An episode of the agent as it begins."""
        env = self._made(self.num_envs, physics)
        held = Held(env, 0, 0, worn)
        settings = {**self.settings, "total_steps": 0}
        session.call("train", order(self.env_id, settings, seed, held), answer=held.answer)
        env.close()
        return episode(session, self.env_id, worn, seed, physics)

    def _film(
        self, session: Session, worn: Disguise, first: "Episode | None", physics: Physics
    ) -> Film:
        assert first is not None
        last = episode(session, self.env_id, worn, first.seed, physics)
        frames, words = [], []
        for part, name in ((first, "before training"), (last, "after training")):
            for number, frame in part.frames:
                frames.append(frame)
                words.append(f"{self.env_id}, {name}: step {number}")
            words[-1] = f"{self.env_id}, {name}: {part.steps} steps, return {part.score:.0f}"
            frames += [frames[-1]] * 8
            words += [words[-1]] * 8
        caption = (
            f"Your agent in {self.env_id}, the same first state twice: before training the return "
            "is "
            f"{first.score:.0f} in {first.steps} steps, after training {last.score:.0f} in "
            f"{last.steps}."
        )
        return film(frames, caption=caption, alt=caption, words=words)


@dataclass(frozen=True)
class Episode:
    """One episode with the most likely actions.

    Attributes:
        seed: of its first state.
        frames: (step, picture) of some of its steps, the last one among them.
        score: its return.
        steps: its length.

    """

    seed: int
    frames: Sequence[tuple[int, NDArray[np.uint8]]]
    score: float
    steps: int


def episode(session: Session, env_id: str, worn: Disguise, seed: int, physics: Physics) -> Episode:
    """Play one episode in the judge's process and keep its pictures."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn without a window
    real = physics.single(env_id, render_mode="rgb_array")
    env = single_env(real)
    observations, frames, total = env.reset(seed), [], 0.0
    for number in range(1, FILM_STEPS + 1):
        actions = look(session, worn.observation(observations), len(worn.actions))[0].argmax(-1)
        step = env.step(worn.meant(actions))
        total += float(step.rewards[0])
        observations = step.next_observations
        ended = bool((step.terminated | step.truncated)[0])
        if number % 5 == 1 or ended:
            frames.append((number, np.asarray(real.render(), dtype=np.uint8)))
        if ended:
            break
    env.close()
    every = max(1, -(-len(frames) // (FRAMES // 2)))
    return Episode(seed, [*frames[::every], frames[-1]], total, number)
