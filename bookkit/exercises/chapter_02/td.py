"""mdp.td.1: TD(lambda) with traces."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def _run(
    values: Tensor,
    states: Tensor,
    rewards: Tensor,
    gamma: float,
    lam: float,
    rate: float,
    *,
    decay: float | None = None,
    replacing: bool = False,
    online: bool = False,
    traced: bool = True,
    discount: float | None = None,
    target_only: bool = False,
    decay_after: bool = False,
) -> Tensor:
    """TD(lambda), with a switch for each of the mutants."""
    table, correction, traces = values.clone(), torch.zeros_like(values), torch.zeros_like(values)
    decay = gamma * lam if decay is None else decay
    discount = gamma if discount is None else discount
    for t, state in enumerate(states.tolist()):
        known = table if online else values
        last = t + 1 == len(states)
        following = known.new_zeros(()) if last else known[states[t + 1]]
        delta = rewards[t] + discount * following - (0 if target_only else known[state])
        traces = decay * traces if traced else torch.zeros_like(traces)
        traces[state] = 1 if replacing else traces[state] + 1
        if decay_after:
            traces = decay * traces
        if online:
            table = table + rate * delta * traces
        correction = correction + delta * traces
    return table if online else values + rate * correction


def td_lambda(
    values: Tensor, states: Tensor, rewards: Tensor, gamma: float, lam: float, rate: float
) -> Tensor:
    """Add up, along the traces, the TD errors of the table as it was before the episode."""
    return _run(values, states, rewards, gamma, lam, rate)


def oracle(
    values: list[float],
    states: list[int],
    rewards: list[float],
    gamma: float,
    lam: float,
    rate: float,
) -> list[float]:
    """The forward view: every visit moves its state towards the lambda-return from there."""
    steps = len(states)
    behind = [*(values[s] for s in states[1:]), 0.0]
    table = list(values)
    for t in range(steps):
        target, left = 0.0, 1.0
        for n in range(1, steps - t + 1):
            n_step = sum(gamma**k * rewards[t + k] for k in range(n))
            n_step += gamma**n * behind[t + n - 1]
            weight = left if n == steps - t else (1 - lam) * lam ** (n - 1)
            target += weight * n_step
            left -= weight
        table[states[t]] += rate * (target - values[states[t]])
    return table


def cases(draw: Draw) -> Case:
    """Walks that visit states more than once."""
    size, steps = draw.dimension(low=2), draw.dimension()
    inputs = {
        "values": draw.normal(size),
        "states": draw.integers(0, size - 1, steps),
        "rewards": draw.normal(steps),
        "gamma": draw.choice([1.0, 0.9, 0.5]),
        "lam": draw.choice([0.0, 0.5, 0.8, 1.0]),
        "rate": draw.choice([0.1, 0.5, 1.0]),
    }
    return Case(f"{size} states, {steps} steps", inputs)


def edges() -> tuple[Case, ...]:
    """The chapter's episode, repeated visits, both ends of lambda, one step."""

    def case(
        name: str,
        values: list[float],
        states: list[int],
        rewards: list[float],
        gamma: float,
        lam: float,
        rate: float,
    ) -> Case:
        inputs = {
            "values": torch.tensor(values, dtype=torch.float64),
            "states": torch.tensor(states),
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "gamma": gamma,
            "lam": lam,
            "rate": rate,
        }
        return Case(name, inputs)

    critic, row = [2.0, 2.0, 2.0, 4.0], [0, 1, 2, 3]
    paid = [0.0, 0.0, 0.0, 8.0]
    return (
        case("the chain of the chapter", critic, row, paid, 0.5, 0.5, 1.0),
        case("half a step", critic, row, paid, 0.5, 0.5, 0.5),
        case("lambda 0", critic, row, paid, 0.5, 0.0, 1.0),
        case("lambda 1", critic, row, paid, 0.5, 1.0, 1.0),
        case("there and back", [1.0, 3.0], [0, 1, 0, 1], [1.0, -1.0, 2.0, 4.0], 0.9, 0.8, 0.5),
        case("one state, three times", [2.0], [0, 0, 0], [1.0, 1.0, 1.0], 1.0, 0.5, 0.1),
        case("one step", [1.0, 5.0], [1], [3.0], 0.9, 0.5, 0.5),
        case("a state never visited", [1.0, 7.0, 3.0], [0, 2], [1.0, 2.0], 0.9, 0.5, 1.0),
    )


def _replacing(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, replacing=True)


def _online(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, online=True)


def _no_trace(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, traced=False)


def _lam_alone(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, decay=lam)


def _no_discount(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, discount=1.0)


def _target(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, target_only=True)


def _late(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return _run(v, s, r, gamma, lam, rate, decay_after=True)


def _correction(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    return td_lambda(v, s, r, gamma, lam, rate) - v


def _wrapped(v: Tensor, s: Tensor, r: Tensor, gamma: float, lam: float, rate: float) -> Tensor:
    following = v[s[:1]]
    spoilt = r.clone()
    spoilt[-1] = spoilt[-1] + gamma * following[0]
    return td_lambda(v, s, spoilt, gamma, lam, rate)


TD = Exercise(
    id="mdp.td.1",
    title="TD(λ) with traces",
    chapter=2,
    difficulty=3,
    minutes=30,
    goal=(
        "The table of values after one episode that ended: every visit moves its state by `rate` "
        "towards the λ-return, computed from the table as it was before the episode."
    ),
    outputs=(Output("values", "(S,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=td_lambda,
    mutants=(
        Mutant(
            "replacing traces",
            _replacing,
            "a second visit sets the trace to 1; it must add 1 to what is left of the first, or "
            "the two views do not agree",
        ),
        Mutant(
            "table changed on the way",
            _online,
            "the table is changed while the episode runs, so later TD errors see new values: "
            "collect the corrections and apply them at the end",
        ),
        Mutant(
            "no trace",
            _no_trace,
            "only the state that was just left is corrected, which is TD(0): every state visited "
            "before has a trace that has shrunk by gamma * lam a step",
        ),
        Mutant(
            "trace shrinks by lambda alone",
            _lam_alone,
            "the traces shrink by λ alone; a surprise k steps ahead counts (gamma * λ)**k",
        ),
        Mutant(
            "next value not discounted",
            _no_discount,
            "the value of the next state is not discounted in the TD error",
        ),
        Mutant(
            "old value not taken off",
            _target,
            "the TD error lacks its own value: it is target minus estimate, and a state whose "
            "estimate is right must not move",
        ),
        Mutant(
            "trace shrunk too early",
            _late,
            "the trace shrinks before its own step has used it: the state just left has a trace "
            "of at least 1",
        ),
        Mutant(
            "correction returned",
            _correction,
            "this is the correction alone: add it to the table that was given",
        ),
        Mutant(
            "first state behind the end",
            _wrapped,
            "behind the last step stands the value of the first state (an index that wraps around, "
            "or the state after a reset): behind an end there is nothing",
        ),
    ),
    not_tested="episodes that were cut off, and a table learned by a network.",
)
