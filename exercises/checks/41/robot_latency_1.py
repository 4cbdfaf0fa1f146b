"""robot.latency.1: what the motors get when actions arrive late."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    actions: list[list[float]], begins: list[list[bool]], latency: list[int]
) -> list[list[float]]:
    """A queue an environment."""
    envs = len(latency)
    queues: list[list[float]] = [[0.0] * latency[n] for n in range(envs)]
    applied = []
    for t, row in enumerate(actions):
        now = []
        for n in range(envs):
            if begins[t][n]:
                queues[n] = [0.0] * latency[n]
            queues[n].append(row[n])
            now.append(queues[n].pop(0))
        applied.append(now)
    return applied


def cases(draw: Draw) -> Case:
    """A rollout of a few environments, each with its own latency."""
    steps, envs = draw.dimension(2), draw.dimension()
    begins = ~draw.holed_mask(steps, envs)
    begins[0] = True
    inputs = {
        "actions": draw.normal(steps, envs),
        "begins": begins,
        "latency": draw.integers(0, 2, envs),
    }
    return Case(f"{steps} × {envs}", inputs)


def edges() -> tuple[Case, ...]:
    """No latency, one step, two, a new episode, latencies that differ, longer than an episode."""

    def case(
        name: str, actions: list[list[float]], begins: list[list[int]], latency: list[int]
    ) -> Case:
        inputs = {
            "actions": torch.tensor(actions, dtype=torch.float64),
            "begins": torch.tensor(begins).bool(),
            "latency": torch.tensor(latency),
        }
        return Case(name, inputs)

    four = [[1.0], [2.0], [3.0], [4.0]]
    return (
        case("no latency", four, [[1], [0], [0], [0]], [0]),
        case("one step late", four, [[1], [0], [0], [0]], [1]),
        case("two steps late", four, [[1], [0], [0], [0]], [2]),
        case("a new episode", four, [[1], [0], [1], [0]], [1]),
        case("longer than the episode", four, [[1], [0], [1], [0]], [3]),
        case(
            "two arms",
            [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]],
            [[1, 1], [0, 0], [0, 1], [0, 0]],
            [2, 1],
        ),
        # The first arm's latency is not the largest one.
        case(
            "the second arm is later",
            [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]],
            [[1, 1], [0, 0], [0, 0], [0, 0]],
            [1, 2],
        ),
    )


CHECK = Check(
    id="robot.latency.1",
    outputs=(Output("applied", "(T, N)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "first action lost",
            "= l",
            " l",
            "the first action of an episode never acts: with latency L it acts in the "
            "step of age L, so the test is `age >= latency`",
        ),
        edit(
            "runs on over resets",
            "age >",
            "t >",
            "actions of the episode before still arrive after a reset: empty the queue there",
        ),
        edit(
            "no latency",
            "return applied",
            "return actions",
            "the actions arrive at once: the latency is not used",
        ),
        edit(
            "one step early",
            "steps,",
            "latency = (latency - 1).clamp(min=0)\n    steps,",
            "actions arrive one step too early: a latency of one step must delay by one",
        ),
        edit(
            "one step late",
            "steps,",
            "latency = latency + 1\n    steps,",
            "actions arrive one step too late: latency 0 is at once",
        ),
        edit(
            "the first action at once",
            "arrived, 0.0)",
            "arrived, actions[t - age, torch.arange(envs)])",
            "the first action fills the wait: nothing has arrived yet, so the motors get 0",
        ),
        edit(
            "one latency for all",
            "steps,",
            "latency = latency[:1].expand_as(latency)\n    steps,",
            "the first arm's latency is used for all: each arm has its own",
        ),
        edit(
            "the largest latency for all",
            "steps,",
            "latency = latency.max().expand_as(latency)\n    steps,",
            "the largest latency is used for all: each arm has its own",
        ),
        edit(
            "all queues emptied",
            "begins[t]",
            "begins.any(dim=1, keepdim=True).expand_as(begins)[t]",
            "one arm's new episode empties the queues of all: reset each by itself",
        ),
    ),
    not_tested="latencies that are no whole number of steps.",
    wide=("actions",),
)
