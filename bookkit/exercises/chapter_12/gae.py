"""ppo.gae.1: generalised advantage estimation with two kinds of end."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    gamma: float,
    lam: float,
) -> Pair:
    """Walk backwards; `terminated` stops the bootstrap, `done` stops the trace."""
    deltas = rewards + gamma * torch.where(terminated, 0.0, next_values) - values
    trace = torch.zeros_like(rewards[0])
    advantages = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[0])):
        trace = deltas[t] + gamma * lam * torch.where(done[t], 0.0, trace)
        advantages[t] = trace
    return advantages, advantages + values


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


def _scan(deltas: Tensor, decay: float, stop: Tensor) -> Tensor:
    trace, rows = torch.zeros_like(deltas[0]), []
    for t in reversed(range(deltas.shape[0])):
        trace = deltas[t] + decay * torch.where(stop[t], 0.0, trace)
        rows.append(trace)
    return torch.stack(rows[::-1])


def _cut_is_death(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    return gae(r, v, nv, done, done, gamma, lam)


def _trace_leaks(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    return gae(r, v, nv, terminated, terminated, gamma, lam)


def _bootstraps_death(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    return gae(r, v, nv, torch.zeros_like(terminated), done, gamma, lam)


def _shifted_values(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    return gae(r, v, torch.cat([v[1:], nv[-1:]]), terminated, done, gamma, lam)


def _no_gamma_in_trace(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    deltas = r + gamma * torch.where(terminated, 0.0, nv) - v
    advantages = _scan(deltas, lam, done)
    return advantages, advantages + v


def _lambda_ignored(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    return gae(r, v, nv, terminated, done, gamma, 1.0)


def _returns_are_advantages(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    advantages, _ = gae(r, v, nv, terminated, done, gamma, lam)
    return advantages, advantages


def _product(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    deltas = r + gamma * nv * (~terminated) - v
    advantages = _scan(deltas, gamma * lam, done)
    return advantages, advantages + v


def _stop_one_row_late(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    deltas = r + gamma * torch.where(terminated, 0.0, nv) - v
    late = torch.cat([torch.zeros_like(done[:1]), done[:-1]])
    advantages = _scan(deltas, gamma * lam, late)
    return advantages, advantages + v


def _forwards(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    deltas = r + gamma * torch.where(terminated, 0.0, nv) - v
    advantages = _scan(deltas.flip(0), gamma * lam, done.flip(0)).flip(0)
    return advantages, advantages + v


def _normalised(r, v, nv, terminated, done, gamma, lam) -> Pair:  # type: ignore[no-untyped-def]
    advantages, returns = gae(r, v, nv, terminated, done, gamma, lam)
    spread = advantages.std(correction=0) + 1e-8
    return (advantages - advantages.mean()) / spread, returns


GAE = Exercise(
    id="ppo.gae.1",
    title="Generalised advantage estimation",
    chapter=12,
    difficulty=3,
    minutes=25,
    goal=(
        "Advantages and returns of several environments at once. A terminated step has no value "
        "behind it; a step that is done, for whatever reason, hears nothing of the rows after it."
    ),
    outputs=(Output("advantages", "(T, N)"), Output("returns", "(T, N)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=gae,
    mutants=(
        Mutant(
            "a truncation is a death",
            _cut_is_death,
            "`done` stops the bootstrap, so an episode that was only cut off counts as worthless "
            "from there on: only `terminated` may replace the next value by 0",
        ),
        Mutant(
            "the trace leaks",
            _trace_leaks,
            "the trace runs on over a truncation into the next episode: multiply it by 0 wherever "
            "`done` is true, not only where `terminated` is",
        ),
        Mutant(
            "the dead are bootstrapped",
            _bootstraps_death,
            "`terminated` is not used: behind a terminal state there is nothing, so its next value "
            "is 0",
        ),
        Mutant(
            "values shifted by one",
            _shifted_values,
            "the next value is read from the next row of `values`; at an end that row belongs to "
            "another episode. `next_values` is given for this reason",
        ),
        Mutant(
            "no discount on the trace",
            _no_gamma_in_trace,
            "the trace decays with λ alone; it decays with γ·λ, because a difference one step "
            "later is also discounted",
        ),
        Mutant(
            "lambda ignored",
            _lambda_ignored,
            "`lam` has no effect: this is the whole discounted return minus the value, λ = 1",
        ),
        Mutant(
            "returns are advantages",
            _returns_are_advantages,
            "the second result repeats the advantages; the critic's target is advantage plus value",
        ),
        Mutant(
            "product with the flag",
            _product,
            "multiplying by (1 - terminated) leaves nan where the next value is nan (0 · nan is "
            "nan): choose with `torch.where`",
        ),
        Mutant(
            "stops one row late",
            _stop_one_row_late,
            "the flag is read one row late: `done[t]` says that nothing after row t belongs to the "
            "episode, so row t itself must not receive the trace of row t + 1",
        ),
        Mutant(
            "summed forwards",
            _forwards,
            "the trace runs from the first step to the last: an advantage is made of what comes "
            "after the step, so walk backwards",
        ),
        Mutant(
            "normalised",
            _normalised,
            "the advantages are normalised: that belongs into the loss, once a minibatch, and "
            "never before the returns are formed",
        ),
    ),
    not_tested="dummy rows of an autoreset, speed, and whether the values are any good.",
)
