"""What an arm is paid for: four rewards for one task, and the potential that is safe to add.

A reward says what is wanted; a badly chosen one says something else. The forms here are compared in
chapter 41. All take arrays over N environments.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nbkit._inputs import check_choice

Array = NDArray[np.float64]
Form = Literal["sparse", "dense", "potential", "closeness"]
FORMS: tuple[str, ...] = get_args(Form)

POTENTIAL_SCALE = 25.0  # reward a metre: 0.2 m of progress weighs as much as five steps saved
CLOSENESS_M = 0.1


def potential(cost_m: Array, scale: float = POTENTIAL_SCALE) -> Array:
    """Return Phi(s) = -scale * cost, (N,): higher is nearer."""
    return -scale * cost_m


def shaping(before: Array, after: Array, terminated: NDArray[np.bool_], *, gamma: float) -> Array:
    """Return gamma * Phi(s') - Phi(s), (N,), with Phi = 0 in a terminal state.

    Added to any reward it changes no policy's rank (Ng, Harada and Russell, 1999): along an episode
    the terms telescope to a number that only the first state decides. A truncation is no terminal
    state: there Phi(s') stays.

    Args:
        before: (N,) Phi of the state acted in.
        after: (N,) Phi of the state reached.
        terminated: (N,) whether that state is terminal.
        gamma: the discount that the agent uses; another one breaks the promise.

    """
    return gamma * np.where(terminated, 0.0, after) - before


def reward(
    form: str,
    *,
    cost_before_m: Array,
    cost_m: Array,
    success: NDArray[np.bool_],
    actions: Array,
    gamma: float,
) -> Array:
    """Return the rewards (N,) of a step.

    "sparse" pays -1 a step until success, "dense" minus the distance, "potential" the sparse reward
    and the shaping of its distance. "closeness" pays for being near, each step, until success ends
    the episode: it looks like "dense" with another sign, and teaches the arm *not* to arrive.

    Args:
        form: one of ``FORMS``.
        cost_before_m: (N,) distance still to go in the state acted in, m.
        cost_m: (N,) the same in the state reached.
        success: (N,) whether that state is a success, which ends the episode.
        actions: (N, A) in [-1, 1].
        gamma: of the potential.

    """
    check_choice("form", form, FORMS)
    sparse = np.where(success, 0.0, -1.0)
    if form == "sparse":
        return sparse
    if form == "dense":
        return -4.0 * cost_m - 0.02 * (actions**2).sum(1) + 1.0 * success
    if form == "closeness":
        return np.exp(-cost_m / CLOSENESS_M)
    return sparse + shaping(potential(cost_before_m), potential(cost_m), success, gamma=gamma)
