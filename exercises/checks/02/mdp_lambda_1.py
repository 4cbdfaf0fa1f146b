"""mdp.lambda.1: the lambda-return of an episode."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    rewards: list[float], values: list[float], last_value: float, gamma: float, lam: float
) -> list[float]:
    """The definition: a weighted mean of all n-step returns; the longest gets what is left."""
    steps = len(rewards)
    behind = [*values[1:], last_value]
    answer = []
    for t in range(steps):
        total, weight_left = 0.0, 1.0
        for n in range(1, steps - t + 1):
            n_step = sum(gamma**k * rewards[t + k] for k in range(n))
            n_step += gamma**n * behind[t + n - 1]
            weight = weight_left if n == steps - t else (1 - lam) * lam ** (n - 1)
            total += weight * n_step
            weight_left -= weight
        answer.append(total)
    return answer


def cases(draw: Draw) -> Case:
    """Episodes that ended (last value 0) and episodes that were cut off."""
    steps = draw.dimension()
    inputs = {
        "rewards": draw.normal(steps),
        "values": draw.normal(steps),
        "last_value": draw.choice([0.0, 2.0, -1.5]),
        "gamma": draw.choice([1.0, 0.9, 0.5]),
        "lam": draw.choice([0.0, 0.5, 0.8, 1.0]),
    }
    return Case(f"{steps} steps", inputs)


def edges() -> tuple[Case, ...]:
    """The chapter's episode, both ends of lambda, one step, a cut-off, a long row."""

    def case(
        name: str,
        rewards: list[float],
        values: list[float],
        last_value: float,
        gamma: float,
        lam: float,
    ) -> Case:
        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "values": torch.tensor(values, dtype=torch.float64),
            "last_value": last_value,
            "gamma": gamma,
            "lam": lam,
        }
        return Case(name, inputs)

    paid, critic = [0.0, 0.0, 0.0, 8.0], [2.0, 2.0, 2.0, 4.0]
    return (
        case("the chain of the chapter", paid, critic, 0.0, 0.5, 0.5),
        case("lambda 0", paid, critic, 0.0, 0.5, 0.0),
        case("lambda 1", paid, critic, 0.0, 0.5, 1.0),
        case("one step", [3.0], [1.0], 0.0, 0.9, 0.5),
        case("cut off", [1.0, 2.0, -1.0], [5.0, 4.0, 3.0], 10.0, 0.9, 0.7),
        case("one step, cut off", [1.0], [2.0], 10.0, 0.5, 0.5),
        case("gamma 0", [1.0, 2.0], [3.0, 4.0], 5.0, 0.0, 0.5),
        case("a long row", [1.0] * 100, [0.5] * 100, 0.0, 1.0, 0.9),
    )


CHECK = Check(
    id="mdp.lambda.1",
    outputs=(Output("returns", "(T,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "advantage",
            "return returns",
            "return returns - values",
            "this is GAE, the λ-return minus the value of the state itself; here the "
            "target is asked for, with nothing taken off",
        ),
        edit(
            "a cut-off is an end",
            "= last_value",
            "= 0.0",
            "`last_value` has no effect: an episode that was cut off goes on being worth "
            "something, so bootstrap behind the last step",
        ),
        edit(
            "own value",
            "ahead = rewards[t]",
            "following = values[t]\n        ahead = rewards[t]",
            "the value of the state that was left stands where that of the state that was "
            "reached belongs: V(s[t+1]) is values[t+1], and `last_value` behind the last "
            "step",
        ),
        edit(
            "lambda exchanged",
            "returns =",
            "lam = 1 - lam\n    returns =",
            "λ and 1 - λ are exchanged: λ = 1 is the return that was earned, λ = 0 "
            "believes the critic after one step",
        ),
        edit(
            "no discount on the trace",
            "gamma * ((1 - lam) * following + lam * ahead)",
            "gamma * (1 - lam) * following + lam * ahead",
            "the return from the next step is not discounted: gamma multiplies both the "
            "critic's word and the return behind it",
        ),
        edits(
            "critic in full",
            ("ahead = following = last_value", "ahead, following = 0.0, last_value"),
            ("(1 - lam) * following", "following"),
            message="the critic's value enters in full and the return comes on top: the weights 1 "
            "- λ and λ must add to 1",
        ),
        edit(
            "begun at zero",
            "ahead = following = last_value",
            "ahead, following = 0.0, last_value",
            "the recursion begins with 0 behind the last step, so only the share 1 - λ of "
            "`last_value` enters: begin with `last_value` itself",
        ),
        edit(
            "lambda ignored",
            "returns =",
            "lam = 1.0\n    returns =",
            "`lam` has no effect: this is the discounted return, the case λ = 1",
        ),
    ),
    not_tested="batches, and several episodes in one row.",
    wide=(
        "rewards",
        "values",
    ),
    special=(
        ("last_value", 1.0),
        ("gamma", 0.99),
        ("lam", 0.95),
    ),
)
