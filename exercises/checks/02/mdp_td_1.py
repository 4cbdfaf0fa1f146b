"""mdp.td.1: TD(lambda) with traces."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="mdp.td.1",
    outputs=(Output("values", "(S,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "replacing traces",
            "+= 1",
            "= 1",
            "a second visit sets the trace to 1; it must add 1 to what is left of the "
            "first, or the two views do not agree",
        ),
        edits(
            "table changed on the way",
            ("    deltas = rewards + gamma * behind - values[states]\n", ""),
            (
                "behind = torch.cat([values[states[1:]], values.new_zeros(1)])",
                "values = values.clone()",
            ),
            (
                "for state, delta in zip(states.tolist(), deltas):",
                "for t, state in enumerate(states.tolist()):\n"
                "        behind = values[states[t + 1]] if t + 1 < len(states) else 0.0\n"
                "        delta = rewards[t] + gamma * behind - values[state]",
            ),
            ("correction = correction + delta * traces", "values = values + rate * delta * traces"),
            ("values + rate * correction", "values"),
            message="the table is changed while the episode runs, so later TD errors see new "
            "values: collect the corrections and apply them at the end",
        ),
        edit(
            "no trace",
            "gamma * lam * traces",
            "0 * traces",
            "only the state that was just left is corrected, which is TD(0): every state "
            "visited before has a trace that has shrunk by gamma * lam a step",
        ),
        edit(
            "trace shrinks by lambda alone",
            "gamma * lam",
            "lam",
            "the traces shrink by λ alone; a surprise k steps ahead counts (gamma * λ)**k",
        ),
        edit(
            "next value not discounted",
            "gamma * behind",
            "behind",
            "the value of the next state is not discounted in the TD error",
        ),
        edit(
            "old value not taken off",
            "behind - values[states]",
            "behind",
            "the TD error lacks its own value: it is target minus estimate, and a state "
            "whose estimate is right must not move",
        ),
        edit(
            "trace shrunk too early",
            "traces[state] += 1",
            "traces[state] += 1\n        traces = gamma * lam * traces",
            "the trace shrinks before its own step has used it: the state just left has a "
            "trace of at least 1",
        ),
        edit(
            "correction returned",
            "values + rate",
            "rate",
            "this is the correction alone: add it to the table that was given",
        ),
        edit(
            "first state behind the end",
            "values.new_zeros(1)",
            "values[states[:1]]",
            "behind the last step stands the value of the first state (an index that "
            "wraps around, or the state after a reset): behind an end there is nothing",
        ),
    ),
    not_tested="episodes that were cut off, and a table learned by a network.",
    wide=(
        "values",
        "rewards",
    ),
    special=(
        ("gamma", 0.0),
        ("gamma", 0.99),
        ("lam", 0.95),
        ("rate", 0.0),
    ),
)
