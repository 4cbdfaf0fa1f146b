"""mdp.shaping.1: rewards from a potential."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="mdp.shaping.1",
    outputs=(Output("shaped", "(T,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "potential behind the end",
            "if terminated",
            "if False",
            "the potential of the last state is kept although the episode ended there: "
            "then an end with a high potential pays, and the goal has changed. It must "
            "count as 0",
        ),
        edit(
            "a cut-off is an end",
            "if terminated",
            "if True",
            "the last potential is dropped even where the episode was only cut off: there "
            "the state goes on, and its potential stays",
        ),
        edit(
            "gamma missing",
            "gamma *",
            "1.0 *",
            "the potential of the next state is not discounted: without gamma the sum "
            "does not telescope, and loops can pay",
        ),
        edit(
            "plain bonus",
            "gamma * following - potentials[:-1]",
            "following",
            "the potential of the state that was reached is paid as a bonus and never "
            "taken back: the difference is what makes loops worthless",
        ),
        edit(
            "sign reversed",
            "+ gamma * following - potentials[:-1]",
            "- gamma * following + potentials[:-1]",
            "the difference is the wrong way round: moving to a higher potential must be "
            "paid, not charged",
        ),
        edit(
            "gamma on the own potential",
            "gamma * following - potentials",
            "following - gamma * potentials",
            "gamma stands at the wrong potential: the state that is reached lies one step later",
        ),
        edit(
            "rewards lost",
            "rewards + gamma * following",
            "(gamma * following)",
            "the rewards themselves are missing: shaping is added to them",
        ),
        edit(
            "last step not shaped",
            "following[-1] = 0.0",
            "following[-1] = potentials[-2] / gamma",
            "the last step before an end gets no shaping at all: the potential of the "
            "state that is left must still be taken back there",
        ),
    ),
    not_tested="whether the potential helps: any potential is harmless, few are useful.",
    wide=(
        "rewards",
        "potentials",
    ),
    special=(
        ("gamma", 0.0),
        ("gamma", 0.99),
    ),
)
