"""A stage that trains an arm to push a puck, and passes by its successes with fresh targets."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bookkit.builds.motion import LIMIT, HeldMotion, MotionDisguise, look, motion_disguise
from bookkit.builds.notes import Notes
from bookkit.builds.probing import order
from bookkit.builds.session import Session
from bookkit.builds.trials import Act, Part, arms, as_film, filmed, play
from bookkit.builds.verdict import Curve, Finding, Picture
from nbkit.control.environments import VectorEnvAdapter
from nbkit.envs.rendering import NoRenderer

EPISODES = 100
LAZY_EVERY = 4  # steps from one frame to the next where little happens
FALL = 30.0  # successes in a hundred


@dataclass(frozen=True)
class PushStage:
    """Train, then play `EPISODES` fresh episodes as the agent says.

    Attributes:
        title: of the stage.
        settings: of the training; the learner's `SETTINGS[title]` may change all but the steps.
        num_envs: N.
        threshold: the share of successes that passes.

    """

    title: str
    settings: Mapping[str, Any]
    num_envs: int
    threshold: float

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Train, judge, and draw the film of the same episodes before and after."""
        env = self._arms(self.num_envs)
        worn = motion_disguise(env, draw)
        seed, notes = draw.randrange(2**31), Notes()
        began = session.meter.seconds
        before, unseen = self._before(session, worn, seed) if films else (None, "")
        held = HeldMotion(
            env,
            draw.randrange(2**31),
            int(self.settings["total_steps"]),
            worn,
            scored="termination",
        )
        words = order(self.title, self.settings, seed, held)
        session.call("train", words, answer=held.answer, note=notes.take)
        seconds = session.meter.seconds - began
        seen = None
        if before is not None:
            seen = as_film(before, self._part(session, worn, seed, "after training", 1))
        trials = play(self._arms(EPISODES), self._act(session, worn), worn, draw.randrange(2**31))
        score = float(trials.won.mean())
        passed = score >= self.threshold
        looks = [] if passed else [*trials.looks(), *self._habits(held)]
        return Finding(
            self.title,
            passed,
            f"{trials.said}; {self.threshold:.0%} passes",
            (*looks, *notes.findings(), *([unseen] if unseen else [])),
            self._picture(held),
            seen,
            score,
            used=held.used,
            processor_seconds=seconds,
        )

    def _arms(self, num_envs: int) -> VectorEnvAdapter:
        return arms(num_envs, self.settings["gamma"])

    def _act(self, session: Session, worn: MotionDisguise) -> Act:
        return lambda observations: look(session, observations, len(worn.axes))[0]

    def _habits(self, held: HeldMotion) -> list[str]:
        """What the judge's own counts say of the training."""
        found = [held.alike()]
        if held.used < 0.5 * held.budget:
            found.append(
                f"{held.used:,} of {held.budget:,} steps were used: the training ends early"
            )
        if held.recent:
            done = held.done()
            at_limit = (done.abs() > LIMIT).float().mean().item()
            if at_limit > 0.8:
                found.append(
                    f"{at_limit:.0%} of the last actions lie at a limit: the Gaussian has run away "
                    "from the range, or its standard deviation has"
                )
        curve = held.curve()
        best, last = max((y for _, y in curve), default=0.0), curve[-1][1] if curve else 0.0
        if best - last > FALL:
            found.append(
                f"{best:.0f} of 100 episodes of training succeeded, and in the end {last:.0f}: "
                "steps that are too large late in training; let the learning rate fall to 0"
            )
        return [sentence for sentence in found if sentence]

    def _picture(self, held: HeldMotion) -> Picture:
        curves = [Curve("yours", held.curve())]
        words = "environment steps", "successes in the last 100 episodes"
        return Picture(self.title, *words, tuple(curves), 100.0 * self.threshold)

    def _before(self, session: Session, worn: MotionDisguise, seed: int) -> tuple[Part | None, str]:
        """Some episodes of the agent as it begins; or None, and why nothing can be drawn."""
        held = HeldMotion(self._arms(self.num_envs), 0, 0, worn)
        settings = {**self.settings, "total_steps": 0}
        session.call("train", order(self.title, settings, seed, held), answer=held.answer)
        try:
            return self._part(session, worn, seed, "before training", LAZY_EVERY), ""
        except NoRenderer as error:
            return None, f"there is no film: {error}"

    def _part(
        self, session: Session, worn: MotionDisguise, seed: int, when: str, every: int
    ) -> Part:
        act, gamma = self._act(session, worn), self.settings["gamma"]
        return filmed(act, worn, gamma, seed, when, every=every)
