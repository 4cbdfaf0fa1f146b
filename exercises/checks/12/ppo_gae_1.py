"""ppo.gae.1: generalised advantage estimation with two kinds of end."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

Table = list[list[float]]


Flags = list[list[bool]]


def oracle(
    rewards: Table,
    values: Table,
    next_values: Table,
    terminated: Flags,
    done: Flags,
    gamma: float,
    lam: float,
) -> tuple[Table, Table]:
    """The definition: for each step, a sum of later temporal differences up to the first end."""
    steps, environments = len(rewards), len(rewards[0])
    advantages = [[0.0] * environments for _ in range(steps)]
    returns = [[0.0] * environments for _ in range(steps)]
    for n in range(environments):
        for t in range(steps):
            terms, weight = [], 1.0
            for s in range(t, steps):
                behind = 0.0 if terminated[s][n] else next_values[s][n]
                terms.append(weight * (rewards[s][n] + gamma * behind - values[s][n]))
                if done[s][n]:
                    break
                weight *= gamma * lam
            advantages[t][n] = math.fsum(terms)
            returns[t][n] = advantages[t][n] + values[t][n]
    return advantages, returns


def cases(draw: Draw) -> Case:
    """Several environments; each step goes on, terminates or is cut off."""
    shape = (draw.dimension(), draw.dimension())
    kind = draw.integers(0, 5, *shape)  # 0 terminates, 1 is cut off, the rest goes on
    inputs = {
        "rewards": draw.normal(*shape),
        "values": draw.normal(*shape),
        "next_values": draw.normal(*shape),
        "terminated": kind == 0,
        "done": kind <= 1,
        "gamma": draw.choice([1.0, 0.9, 0.5]),
        "lam": draw.choice([0.0, 0.5, 0.95, 1.0]),
    }
    return Case(f"{shape[0]} × {shape[1]}", inputs)


def edges() -> tuple[Case, ...]:
    """One step, no end, both kinds of end, all done, both ends of lambda, nan behind the end."""

    def case(
        name: str,
        rewards: list[float],
        values: list[float],
        next_values: list[float],
        ends: str,
        gamma: float = 0.5,
        lam: float = 0.5,
    ) -> Case:
        """`ends` has a letter a step: t terminated, c cut off, . goes on."""
        column = {"rewards": rewards, "values": values, "next_values": next_values}
        inputs = {k: torch.tensor(v, dtype=torch.float64)[:, None] for k, v in column.items()}
        flags = {
            "terminated": torch.tensor([[letter == "t"] for letter in ends]),
            "done": torch.tensor([[letter != "."] for letter in ends]),
        }
        return Case(name, {**inputs, **flags, "gamma": gamma, "lam": lam})

    two = {
        "rewards": torch.tensor([[1.0, 2.0], [4.0, -1.0], [2.0, 0.5]], dtype=torch.float64),
        "values": torch.tensor([[2.0, 1.0], [6.0, 3.0], [0.5, 4.0]], dtype=torch.float64),
        "next_values": torch.tensor([[6.0, 3.0], [8.0, 7.0], [1.0, 2.0]], dtype=torch.float64),
        "terminated": torch.tensor([[False, True], [False, False], [False, False]]),
        "done": torch.tensor([[False, True], [True, False], [False, False]]),
        "gamma": 0.5,
        "lam": 0.5,
    }
    nan = math.nan
    return (
        case("one step that goes on", [3.0], [1.0], [2.0], "."),
        case("one step that terminates", [3.0], [1.0], [2.0], "t"),
        case("one step that is cut off", [3.0], [1.0], [2.0], "c"),
        case("the hand example", [1.0, 0.0, 2.0], [2.0, 4.0, 1.0], [4.0, 10.0, 6.0], ".c."),
        case("no end", [1.0, 2.0, -1.0], [2.0, 4.0, 1.0], [4.0, 1.0, 3.0], "...", 0.9, 0.8),
        case("terminates in the middle", [1.0, 2.0, 4.0], [2.0, 4.0, 1.0], [4.0, 7.0, 3.0], ".t."),
        case("every step ends", [1.0, 2.0, 4.0], [2.0, 4.0, 1.0], [4.0, 7.0, 3.0], "tct"),
        case("lambda 0", [1.0, 2.0, 4.0], [2.0, 4.0, 1.0], [4.0, 1.0, 3.0], "...", 0.9, 0.0),
        case("lambda 1", [1.0, 2.0, 4.0], [2.0, 4.0, 1.0], [4.0, 1.0, 3.0], "...", 0.9, 1.0),
        case("nan behind the end", [1.0, 2.0], [2.0, 4.0], [4.0, nan], ".t"),
        Case("two environments", two),
    )


CHECK = Check(
    id="ppo.gae.1",
    outputs=(Output("advantages", "(T, N)"), Output("returns", "(T, N)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "a truncation is a death",
            "terminated,",
            "done,",
            "`done` stops the bootstrap, so an episode that was only cut off counts as "
            "worthless from there on: only `terminated` may replace the next value by 0",
        ),
        edit(
            "the trace leaks",
            "done[t]",
            "terminated[t]",
            "the trace runs on over a truncation into the next episode: multiply it by 0 "
            "wherever `done` is true, not only where `terminated` is",
        ),
        edit(
            "the dead are bootstrapped",
            "terminated,",
            "torch.zeros_like(terminated),",
            "`terminated` is not used: behind a terminal state there is nothing, so its "
            "next value is 0",
        ),
        edit(
            "values shifted by one",
            ", next_values",
            ", torch.cat([values[1:], next_values[-1:]])",
            "the next value is read from the next row of `values`; at an end that row "
            "belongs to another episode. `next_values` is given for this reason",
        ),
        edit(
            "no discount on the trace",
            "gamma * lam",
            "lam",
            "the trace decays with λ alone; it decays with γ·λ, because a difference one "
            "step later is also discounted",
        ),
        edit(
            "lambda ignored",
            "lam *",
            "1.0 *",
            "`lam` has no effect: this is the whole discounted return minus the value, λ = 1",
        ),
        edit(
            "returns are advantages",
            " + values\n",
            "\n",
            "the second result repeats the advantages; the critic's target is advantage plus value",
        ),
        edit(
            "product with the flag",
            "0.0, n",
            "gamma * next_values * ~terminated, n",
            "multiplying by (1 - terminated) leaves nan where the next value is nan (0 · "
            "nan is nan): choose with `torch.where`",
        ),
        edit(
            "stops one row late",
            "done[t]",
            "torch.cat([torch.zeros_like(done[:1]), done[:-1]])[t]",
            "the flag is read one row late: `done[t]` says that nothing after row t "
            "belongs to the episode, so row t itself must not receive the trace of row t "
            "+ 1",
        ),
        edit(
            "summed forwards",
            "reversed(range(rewards.shape[0]))",
            "range(rewards.shape[0])",
            "the trace runs from the first step to the last: an advantage is made of what "
            "comes after the step, so walk backwards",
        ),
        edit(
            "normalised",
            "return advantages, advantages",
            "spread = advantages.std(correction=0) + 1e-8\n"
            "    return (advantages - advantages.mean()) / spread, advantages",
            "the advantages are normalised: that belongs into the loss, once a minibatch, "
            "and never before the returns are formed",
        ),
    ),
    not_tested="dummy rows of an autoreset, speed, and whether the values are any good.",
    wide=(
        "rewards",
        "values",
        "next_values",
    ),
    special=(
        ("gamma", 0.0),
        ("gamma", 0.99),
    ),
)
