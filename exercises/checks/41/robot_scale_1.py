"""robot.scale.1: the discounted return that rewards are scaled by, right over resets."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    rewards: list[list[float]],
    done: list[list[bool]],
    valid: list[list[bool]],
    before: list[float],
    gamma: float,
) -> tuple[list[list[float]], list[float]]:
    """One environment after the other."""
    seen = [[0.0] * len(before) for _ in rewards]
    left = []
    for n, start in enumerate(before):
        total = start
        for t in range(len(rewards)):
            if valid[t][n]:
                total = gamma * total + rewards[t][n]
            seen[t][n] = total
            if valid[t][n] and done[t][n]:
                total = 0.0
        left.append(total)
    return seen, left


def cases(draw: Draw) -> Case:
    """A rollout with a few ends, each followed by a dummy row."""
    steps, envs = draw.dimension(2), draw.dimension()
    done = ~draw.holed_mask(steps, envs)
    for t in range(1, steps):
        done[t] &= ~done[t - 1]
    valid = torch.cat([torch.ones(1, envs, dtype=torch.bool), ~done[:-1]])
    inputs = {
        "rewards": draw.normal(steps, envs),
        "done": done,
        "valid": valid,
        "before": draw.normal(envs),
        "gamma": draw.choice([0.5, 0.9, 1.0]),
    }
    return Case(f"{steps} × {envs}", inputs)


def edges() -> tuple[Case, ...]:
    """One step, an end in the middle, an end in the last row, a reward on a dummy row."""

    def case(
        name: str,
        rewards: list[list[float]],
        done: str,
        valid: str,
        before: float = 0.0,
        gamma: float = 0.5,
    ) -> Case:
        def flags(letters: str) -> Tensor:
            return torch.tensor([[letter == "1"] for letter in letters])

        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "done": flags(done),
            "valid": flags(valid),
            "before": torch.tensor([before], dtype=torch.float64),
            "gamma": gamma,
        }
        return Case(name, inputs)

    return (
        case("one step", [[2.0]], "0", "1"),
        case("two steps", [[2.0], [3.0]], "00", "11"),
        case("carried over from the last rollout", [[2.0], [3.0]], "00", "11", before=4.0),
        case("an end, then a dummy", [[2.0], [3.0], [0.0], [1.0]], "0100", "1101", before=1.0),
        case("an end in the last row", [[2.0], [3.0]], "01", "11"),
        case("a reward on a dummy row", [[2.0], [7.0], [1.0]], "100", "101"),
        case("an end on a dummy row counts for nothing", [[2.0], [0.0]], "01", "10"),
        case("no discount", [[1.0], [1.0], [1.0]], "000", "111", gamma=1.0),
    )


CHECK = Check(
    id="robot.scale.1",
    outputs=(Output("running", "(T, N)"), Output("left", "(N,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "never forgotten",
            "torch.where(done[t] & valid[t], 0.0, running)",
            "running",
            "an episode's sum runs on into the next one: set it to 0 after the row that ends it",
        ),
        edits(
            "forgotten before the last reward",
            ("        running = torch.where(done[t] & valid[t], 0.0, running)\n", ""),
            (
                "        running = torch.where(valid[t]",
                "        running = torch.where(done[t] & valid[t], 0.0, running)\n"
                "        running = torch.where(valid[t]",
            ),
            message="the sum is cleared in the row that ends the episode, before its reward is "
            "counted: the last row still belongs to the old episode",
        ),
        edits(
            "the last sum lost",
            ("        seen.append(running)\n", ""),
            (
                "        running = torch.where(done[t] & valid[t], 0.0, running)\n",
                "        running = torch.where(done[t] & valid[t], 0.0, running)\n"
                "        seen.append(running)\n",
            ),
            message="the row that ends an episode shows 0 in place of the episode's sum: note the "
            "sum first, then clear it",
        ),
        edit(
            "dummy rows counted",
            "    for t in",
            "    valid = torch.ones_like(valid)\n    for t in",
            "dummy rows discount the sum, or end it: leave it as it is where `valid` is false",
        ),
        edit(
            "every rollout from 0",
            "before, []",
            "torch.zeros_like(before), []",
            "the sum starts from 0 in each rollout: episodes span rollouts, so start from `before`",
        ),
        edit(
            "nothing handed on",
            "(seen), running",
            "(seen), before",
            "what is handed on is the sum of before this rollout: return the latest one",
        ),
        edit(
            "reward discounted",
            "gamma * running + rewards[t]",
            "running + gamma * rewards[t]",
            "the new reward is discounted and the old sum is not; it is the past that fades",
        ),
        edit(
            "no discount",
            "gamma * running",
            "running",
            "the discount is missing: multiply the old sum by it",
        ),
    ),
    not_tested="merging the variances of many rollouts.",
    wide=(
        "rewards",
        "before",
    ),
    special=(
        ("done", True),
        ("valid", False),
        ("gamma", 0.0),
        ("gamma", 0.99),
    ),
)
