"""What a critic's answer says of the fault, in worlds whose values are known: builds 12 and 41."""

from typing import Protocol

from torch import Tensor

from nbkit.envs.probes import GAMMA

NUM_ENVS = 16
NEAR = 0.15
SETTINGS = {
    "total_steps": 6400,
    "rollout_steps": 8,
    "gamma": GAMMA,
    "lam": 0.9,
    "learning_rate": 1e-2,
    "epochs": 4,
    "minibatch_size": 64,
    "clip": 0.2,
    "value_coefficient": 0.5,
    "entropy_coefficient": 0.0,
    "max_grad_norm": 0.5,
    "reward_scale": 1.0,
}
ZERO = ((0.0,),)


class Valued(Protocol):
    """Answers to a probe, as far as they are the critic's."""

    @property
    def values(self) -> Tensor:
        """(rows,)."""
        ...


def one_step(found: Valued) -> str | None:
    """Episodes of one step, reward 1: the value is 1."""
    value = found.values[0].item()
    if abs(value - 1.0) <= NEAR:
        return None
    if abs(value - 1 / (1 - GAMMA)) <= 2 * NEAR:
        return (
            f"Your critic says {value:.2f}, which is what a reward of 1 for ever is worth: "
            "the end of an episode does not stop the bootstrap. `terminated` does."
        )
    if 0.35 <= value < 1 - NEAR:
        return (
            f"Your critic says {value:.2f}: rows that are no step of an episode were learned from. "
            "After an end comes a dummy step; `valid` is False there, and it enters no loss, nor "
            "does the trace of GAE run over an end."
        )
    return (
        f"Your critic says {value:.2f}: look at the value loss, its coefficient, and whether the "
        "optimiser holds the value head."
    )


def two_steps(found: Valued) -> str | None:
    """Two steps, reward 1 at the end: the values are gamma and 1."""
    first, second = found.values.tolist()
    if abs(first - GAMMA) <= NEAR and abs(second - 1.0) <= NEAR:
        return None
    if abs(first - 1.0) <= NEAR:
        return f"Your critic says {first:.2f} for the first step: the discount is missing."
    return (
        f"Your critic says {first:.2f} and {second:.2f}, right are {GAMMA:g} and 1: look at the "
        "discount, at the observation that is bootstrapped from, and at what stops it."
    )


def cut_short(found: Valued) -> str | None:
    """Reward 1 for ever, cut by a time limit of two: the value is 1 / (1 - gamma)."""
    value, right = found.values[0].item(), 1 / (1 - GAMMA)
    if abs(value - right) <= NEAR:
        return None
    if value <= 1.5 + NEAR:
        return (
            f"Your critic says {value:.2f}, right is {right:g}: truncation is treated as "
            "termination. "
            "The time limit is no end of the rewards: the value of the final observation counts, "
            "and only the trace of GAE stops there."
        )
    return (
        f"Your critic says {value:.2f}, right is {right:g}: look at the dummy steps and at the "
        "observation that is bootstrapped from at a truncation."
    )
