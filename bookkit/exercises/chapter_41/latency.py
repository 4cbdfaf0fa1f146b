"""robot.latency.1: what the motors get when actions arrive late."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def delayed(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    """An action arrives so many steps later, unless its episode is over by then."""
    steps, envs = actions.shape
    age = torch.zeros(envs, dtype=torch.int64)
    applied = torch.zeros_like(actions)
    for t in range(steps):
        age = torch.where(begins[t], 0, age + (t > 0))
        ready = age >= latency
        source = (t - latency).clamp(min=0)
        applied[t] = torch.where(ready, actions[source, torch.arange(envs)], 0.0)
    return applied


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


def _runs_on(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    first = torch.zeros_like(begins)
    first[0] = True
    return delayed(actions, first, latency)


def _first_lost(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    ready = delayed(torch.ones_like(actions), begins, latency + 1) > 0
    return torch.where(ready, delayed(actions, begins, latency), 0.0)


def _ignored(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return actions.clone()


def _early(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return delayed(actions, begins, (latency - 1).clamp(min=0))


def _late(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return delayed(actions, begins, latency + 1)


def _first_repeated(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    applied = delayed(actions, begins, latency)
    for n in range(actions.shape[1]):
        start = 0
        for t in range(actions.shape[0]):
            start = t if begins[t, n] else start
            if t - start < latency[n]:
                applied[t, n] = actions[start, n]
    return applied


def _same_for_all(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return delayed(actions, begins, latency[:1].expand_as(latency))


def _largest(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return delayed(actions, begins, latency.max().expand_as(latency))


def _resets_all(actions: Tensor, begins: Tensor, latency: Tensor) -> Tensor:
    return delayed(actions, begins.any(dim=1, keepdim=True).expand_as(begins), latency)


LATENCY = Exercise(
    id="robot.latency.1",
    title="Actions that arrive late",
    chapter=41,
    difficulty=3,
    minutes=20,
    goal=(
        "What the motors of each arm get at each step if an action arrives `latency` steps after "
        "it was chosen. Until the first action of an episode arrives the motors get 0."
    ),
    outputs=(Output("applied", "(T, N)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=delayed,
    mutants=(
        Mutant(
            "first action lost",
            _first_lost,
            "the first action of an episode never acts: with latency L it acts in the step of age "
            "L, so the test is `age >= latency`",
        ),
        Mutant(
            "runs on over resets",
            _runs_on,
            "actions of the episode before still arrive after a reset: empty the queue there",
        ),
        Mutant("no latency", _ignored, "the actions arrive at once: the latency is not used"),
        Mutant(
            "one step early",
            _early,
            "actions arrive one step too early: a latency of one step must delay by one",
        ),
        Mutant("one step late", _late, "actions arrive one step too late: latency 0 is at once"),
        Mutant(
            "the first action at once",
            _first_repeated,
            "the first action fills the wait: nothing has arrived yet, so the motors get 0",
        ),
        Mutant(
            "one latency for all",
            _same_for_all,
            "the first arm's latency is used for all: each arm has its own",
        ),
        Mutant(
            "the largest latency for all",
            _largest,
            "the largest latency is used for all: each arm has its own",
        ),
        Mutant(
            "all queues emptied",
            _resets_all,
            "one arm's new episode empties the queues of all: reset each by itself",
        ),
    ),
    not_tested="latencies that are no whole number of steps.",
)
