"""The probes of build 41: worlds with continuous actions and a known answer."""

import math
from typing import Any

import value_probes
from push_worlds import Shifted, numbers
from torch import Tensor, tensor
from value_probes import NEAR, NUM_ENVS, ZERO, one_step, two_steps

from bookkit.builds.motion_probing import MotionAnswers, ask
from bookkit.builds.probe_stage import ProbeStage
from bookkit.builds.probing import Probe
from nbkit.envs.probes import GAMMA, ProbeEnv

SETTINGS = {**value_probes.SETTINGS, "epochs": 6}


# What is paid, of observations (N,), step numbers (N,) and actions (N, A).


def constant(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """The same for all."""
    return tensor(LARGE).expand(len(observation))


def near_place(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """How near the action is to `PLACE`."""
    return -(action - tensor(PLACE)).square().sum(-1)


def near_sides(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """How near the action is to the place that belongs to the sign of the observation."""
    return -(action - observation[:, None] * tensor(SIDES)).square().sum(-1)


def mean_action(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """The mean of an action's numbers."""
    return action.mean(-1)


def hint(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """Little, for a large first number: what a large bonus must outweigh."""
    return 0.1 * action[:, 0]


LARGE = 20.0
PLACE, SIDES, ZERO_POINT = (0.8, -0.4), (0.6, -0.6), 2.0
ONE_BATCH = {
    "total_steps": 1024,
    "rollout_steps": 64,
    "epochs": 40,
    "clip": 0.1,
    "learning_rate": 3e-3,
}
MANY = 16  # numbers of an action
LEAP, LEAP_OF_MANY = 1.0, 0.25  # standard deviations
WIDE = {"entropy_coefficient": 5.0, "learning_rate": 2e-2}
NARROW, WIDEST = 0.35, 0.7  # standard deviations; of evenly spread actions it is 0.58


def scaled(found: MotionAnswers) -> str | None:
    """Reward 20 at a scale of 1/20: the value is 1."""
    value = found.values[0].item()
    if abs(value - 1.0) <= NEAR:
        return None
    return (
        f"Your critic says {value:.2f}, right is 1: the rewards are not multiplied by "
        "`reward_scale`, or something else scales them as well."
    )


def cut_short(found: MotionAnswers) -> str | None:
    """Reward 1 for ever, cut by a time limit of two; with many updates a missing discount shows."""
    value, right = found.values[0].item(), 1 / (1 - GAMMA)
    if value > 2 * right:
        return (
            f"Your critic says {value:.2f}, right is {right:g}: the discount is missing, so the "
            "value grows with every update."
        )
    return value_probes.cut_short(found)


def place(found: MotionAnswers) -> str | None:
    """The action that pays most is `PLACE`."""
    action, right = found.actions[0], tensor(PLACE)
    gap, before = ((part - right).norm().item() for part in (action, found.before[0]))
    if (action - right).abs().max() <= NEAR:
        return None
    shown = f"The best action is {_told(right)}, yours is {_told(action)}"
    if gap > before + NEAR:
        return (
            f"{shown}, farther from it than before training ({_told(found.before[0])}): the policy "
            "loss or the advantage has the wrong sign."
        )
    if gap > 0.7 * before:
        return (
            f"{shown}, and before training it was {_told(found.before[0])}: the policy hardly "
            "moves there. Advantages and actions of a row do not belong together, or the "
            "log-density is not that of the action that was drawn."
        )
    return (
        f"{shown}: the Gaussian's mean settles beside it. Look at what bounds the action, and at "
        "the sign of the log of the standard deviation in the density."
    )


def sides(found: MotionAnswers) -> str | None:
    """The best action is `SIDES` times the sign of the observation."""
    right = tensor([[sign * side for side in SIDES] for sign in (-1.0, 1.0)])
    if _worst(found.actions, right) <= 2 * NEAR:
        return None
    shown = (
        f"Where the best actions are {_told(right[0])} and {_told(right[1])}, your agent answers "
        f"{_told(found.actions[0])} and {_told(found.actions[1])}"
    )
    if _worst(found.acted, right) <= 2 * NEAR:
        return (
            f"{shown}; in training it acted by {_told(found.acted[0])} and {_told(found.acted[1])} "
            "on average, which is right. What is done to observations in training is not done, or "
            "done otherwise, when the agent is asked: return the moments with the agent."
        )
    return (
        f"{shown}: observations, actions and advantages of a row do not belong together. Look at "
        "flattening and shuffling."
    )


def held_back(found: MotionAnswers) -> str | None:
    """One batch, forty epochs, one number: the clip keeps the policy near the one that sampled."""
    moved = _moved(found)
    if moved <= LEAP:
        return None
    return (
        f"After one batch and {ONE_BATCH['epochs']} epochs the action has moved by {moved:.1f} of "
        f"its standard deviations; with a clip of {ONE_BATCH['clip']:g} it stays below {LEAP:g}. "
        "The ratio does not hold the policy back: it is not clipped, or the old log-densities are "
        "stale or computed anew. They are those of the rollout, stored once, without gradient."
    )


def held_back_together(found: MotionAnswers) -> str | None:
    """The same with many numbers: one ratio for all of them."""
    moved = _moved(found)
    if moved <= LEAP_OF_MANY:
        return None
    return (
        f"With one number an action the ratio held your policy back, with {MANY} it does not: they "
        f"have moved by {moved:.2f} of their standard deviations on average, and stay below "
        f"{LEAP_OF_MANY:g} where the log-density of an action is the sum over its dimensions. Not "
        "their mean, and no ratio for each."
    )


def spread_out(found: MotionAnswers) -> str | None:
    """A large bonus for entropy: the actions fill their range."""
    spread = found.done.std(0)
    said = f"With an entropy coefficient of {WIDE['entropy_coefficient']:g}"
    if spread.max() > WIDEST:
        return (
            f"{said} the actions should fill their range evenly, with a standard deviation of "
            f"{3**-0.5:.2f}; it is {spread.max():.2f}, so they pile up at both limits. The entropy "
            "is that of the Gaussian and not that of the bounded action: the correction for the "
            "squash is missing in it."
        )
    if spread.min() < NARROW:
        return (
            f"{said} the actions should fill their range; they have a standard deviation of "
            f"{spread.min():.2f}. The entropy bonus is missing or has the wrong sign: the loss "
            "falls when the entropy rises."
        )
    return None


def _moved(found: MotionAnswers) -> float:
    """How far the numbers of the action have gone on average, in standard deviations."""
    steps = (found.actions - found.before)[0] / found.done.std(0).clamp(min=1e-6)
    return steps.mean().item()


def _worst(actions: Tensor, right: Tensor) -> float:
    gap = (actions - right).abs().max().item()
    return math.inf if math.isnan(gap) else gap


def _told(action: Tensor) -> str:
    return "(" + ", ".join(f"{number:.2f}" for number in action.tolist()) + ")"


def _world(*, action_size: int = 1, **settings: Any) -> ProbeEnv:
    return ProbeEnv(NUM_ENVS, action_space=numbers(action_size), **settings)


PROBE_STAGE = ProbeStage(
    "probes",
    (
        Probe(
            "Episodes of one step, reward 1: is the value 1?",
            lambda: _world(length=1, reward=lambda o, t, a: o * 0.0 + 1.0),
            ZERO,
            one_step,
        ),
        Probe(
            f"Reward {LARGE:g} at a scale of {1 / LARGE:g}: is the value 1?",
            lambda: _world(length=1, reward=constant),
            ZERO,
            scaled,
            {"reward_scale": 1 / LARGE},
        ),
        Probe(
            "Reward 1 a step for ever, cut by a time limit: is the value 1 / (1 - γ)?",
            lambda: _world(length=2, reward=lambda o, t, a: o * 0.0 + 1.0, ends="truncated"),
            ZERO,
            cut_short,
        ),
        Probe(
            "One batch, many epochs: how far does the policy go?",
            lambda: _world(length=1, reward=mean_action),
            ZERO,
            held_back,
            ONE_BATCH,
            part="clip",
        ),
        Probe(
            f"The same with {MANY} numbers an action: is there one ratio for all of them?",
            lambda: _world(length=1, reward=mean_action, action_size=MANY),
            ZERO,
            held_back_together,
            ONE_BATCH,
            part="clip",
        ),
        Probe(
            "One action of two numbers pays most: is it found?",
            lambda: _world(length=1, reward=near_place, action_size=2),
            ZERO,
            place,
        ),
        Probe(
            "The best action depends on what is seen: does the policy follow?",
            lambda: Shifted(
                _world(length=1, reward=near_sides, observation="sign", action_size=2), ZERO_POINT
            ),
            ((ZERO_POINT - 1.0,), (ZERO_POINT + 1.0,)),
            sides,
        ),
        Probe(
            "Two steps, reward 1 at the end: is the value of the first step γ?",
            lambda: _world(length=2, reward=lambda o, t, a: t.float(), observation="time"),
            ((0.0,), (1.0,)),
            two_steps,
        ),
        Probe(
            "A large entropy bonus: do the actions stay spread out, and within their bounds?",
            lambda: _world(length=1, reward=hint, action_size=2),
            ZERO,
            spread_out,
            WIDE,
            part="entropy",
        ),
    ),
    SETTINGS,
    ask,
)
