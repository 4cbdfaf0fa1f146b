"""mdp.shaping.1: rewards from a potential."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def shaped_rewards(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    """Add gamma times the next potential minus the own one; nothing stands behind an end."""
    following = potentials[1:].clone()
    if terminated:
        following[-1] = 0.0
    return rewards + gamma * following - potentials[:-1]


def oracle(
    rewards: list[float], potentials: list[float], terminated: bool, gamma: float
) -> list[float]:
    """Step by step."""
    answer = []
    for t, reward in enumerate(rewards):
        is_end = terminated and t == len(rewards) - 1
        behind = 0.0 if is_end else potentials[t + 1]
        answer.append(reward + gamma * behind - potentials[t])
    return answer


def cases(draw: Draw) -> Case:
    """Episodes that ended and episodes that were cut off."""
    steps = draw.dimension()
    inputs = {
        "rewards": draw.normal(steps),
        "potentials": draw.normal(steps + 1),
        "terminated": draw.choice([True, False]),
        "gamma": draw.choice([1.0, 0.9, 0.5]),
    }
    return Case(f"{steps} steps", inputs)


def edges() -> tuple[Case, ...]:
    """Paper, an end and a cut-off, one step, no discount, no potential."""

    def case(
        name: str, rewards: list[float], potentials: list[float], terminated: bool, gamma: float
    ) -> Case:
        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "potentials": torch.tensor(potentials, dtype=torch.float64),
            "terminated": terminated,
            "gamma": gamma,
        }
        return Case(name, inputs)

    return (
        case("three steps to the end", [0.0, 0.0, 8.0], [1.0, 2.0, 4.0, 9.0], True, 0.5),
        case("three steps, cut off", [0.0, 0.0, 8.0], [1.0, 2.0, 4.0, 9.0], False, 0.5),
        case("one step to the end", [1.0], [2.0, 3.0], True, 0.9),
        case("one step, cut off", [1.0], [2.0, 3.0], False, 0.9),
        case("gamma 1", [1.0, -1.0], [0.5, 1.5, 2.0], False, 1.0),
        case("no potential", [1.0, 2.0], [0.0, 0.0, 0.0], True, 0.9),
    )


def _add(rewards: Tensor, bonus: Tensor) -> Tensor:
    return rewards + bonus


def _following(potentials: Tensor, terminated: bool) -> Tensor:
    following = potentials[1:].clone()
    if terminated:
        following[-1] = 0.0
    return following


def _end_kept(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return shaped_rewards(rewards, potentials, False, gamma)


def _always_end(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return shaped_rewards(rewards, potentials, True, gamma)


def _no_gamma(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return shaped_rewards(rewards, potentials, terminated, 1.0)


def _bonus(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return _add(rewards, _following(potentials, terminated))


def _reversed(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return rewards + potentials[:-1] - gamma * _following(potentials, terminated)


def _gamma_on_own(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return rewards + _following(potentials, terminated) - gamma * potentials[:-1]


def _rewards_lost(rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float) -> Tensor:
    return gamma * _following(potentials, terminated) - potentials[:-1]


def _last_bonus_dropped(
    rewards: Tensor, potentials: Tensor, terminated: bool, gamma: float
) -> Tensor:
    shaped = shaped_rewards(rewards, potentials, terminated, gamma)
    if terminated:
        shaped[-1] = rewards[-1]
    return shaped


SHAPING = Exercise(
    id="mdp.shaping.1",
    title="Shape without changing the goal",
    chapter=2,
    difficulty=2,
    minutes=15,
    goal=(
        "The rewards of one episode with potential-based shaping added: gamma times the potential "
        "of the state that was reached minus that of the state that was left, 0 behind an end."
    ),
    outputs=(Output("shaped", "(T,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=shaped_rewards,
    mutants=(
        Mutant(
            "potential behind the end",
            _end_kept,
            "the potential of the last state is kept although the episode ended there: then an "
            "end with a high potential pays, and the goal has changed. It must count as 0",
        ),
        Mutant(
            "a cut-off is an end",
            _always_end,
            "the last potential is dropped even where the episode was only cut off: there the "
            "state goes on, and its potential stays",
        ),
        Mutant(
            "gamma missing",
            _no_gamma,
            "the potential of the next state is not discounted: without gamma the sum does not "
            "telescope, and loops can pay",
        ),
        Mutant(
            "plain bonus",
            _bonus,
            "the potential of the state that was reached is paid as a bonus and never taken back: "
            "the difference is what makes loops worthless",
        ),
        Mutant(
            "sign reversed",
            _reversed,
            "the difference is the wrong way round: moving to a higher potential must be paid, not "
            "charged",
        ),
        Mutant(
            "gamma on the own potential",
            _gamma_on_own,
            "gamma stands at the wrong potential: the state that is reached lies one step later",
        ),
        Mutant(
            "rewards lost",
            _rewards_lost,
            "the rewards themselves are missing: shaping is added to them",
        ),
        Mutant(
            "last step not shaped",
            _last_bonus_dropped,
            "the last step before an end gets no shaping at all: the potential of the state that "
            "is left must still be taken back there",
        ),
    ),
    not_tested="whether the potential helps: any potential is harmless, few are useful.",
)
