"""robot.scale.1: the discounted return that rewards are scaled by, right over resets."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def running_returns(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    """What has been earned so far, discounted; forgotten when an episode ends."""
    running, seen = before, []
    for t in range(rewards.shape[0]):
        running = torch.where(valid[t], gamma * running + rewards[t], running)
        seen.append(running)
        running = torch.where(done[t] & valid[t], 0.0, running)
    return torch.stack(seen), running


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


def _loop(
    rewards: Tensor,
    done: Tensor,
    valid: Tensor,
    before: Tensor,
    gamma: float,
    *,
    forget: str = "after",
    dummies: bool = False,
    start: bool = True,
    old: bool = True,
    keep: str = "gamma",
) -> tuple[Tensor, Tensor]:
    running, seen = before if start else torch.zeros_like(before), []
    for t in range(rewards.shape[0]):
        if forget == "before":
            running = torch.where(done[t] & valid[t], 0.0, running)
        ahead = gamma * running + rewards[t]
        if keep == "reward":
            ahead = running + gamma * rewards[t]
        elif keep == "none":
            ahead = running + rewards[t]
        running = ahead if dummies else torch.where(valid[t], ahead, running)
        if forget == "seen":
            running = torch.where(done[t] & valid[t], 0.0, running)
        seen.append(running)
        if forget == "after":
            running = torch.where(done[t] & (valid[t] | dummies), 0.0, running)
    return torch.stack(seen), running if old else before


def _never_forgotten(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, forget="never")


def _forgotten_early(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, forget="before")


def _end_lost(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, forget="seen")


def _dummies(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, dummies=True)


def _fresh_start(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, start=False)


def _not_handed_on(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, old=False)


def _reward_discounted(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, keep="reward")


def _undiscounted(
    rewards: Tensor, done: Tensor, valid: Tensor, before: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    return _loop(rewards, done, valid, before, gamma, keep="none")


SCALE = Exercise(
    id="robot.scale.1",
    title="The scale of rewards, over resets",
    chapter=41,
    difficulty=3,
    minutes=25,
    goal=(
        "For each row the discounted sum of what the episode has earned so far, and what is "
        "carried into the next rollout. The spread of these sums is what rewards are divided by."
    ),
    outputs=(Output("running", "(T, N)"), Output("left", "(N,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=running_returns,
    mutants=(
        Mutant(
            "never forgotten",
            _never_forgotten,
            "an episode's sum runs on into the next one: set it to 0 after the row that ends it",
        ),
        Mutant(
            "forgotten before the last reward",
            _forgotten_early,
            "the sum is cleared in the row that ends the episode, before its reward is counted: "
            "the last row still belongs to the old episode",
        ),
        Mutant(
            "the last sum lost",
            _end_lost,
            "the row that ends an episode shows 0 in place of the episode's sum: note the sum "
            "first, then clear it",
        ),
        Mutant(
            "dummy rows counted",
            _dummies,
            "dummy rows discount the sum, or end it: leave it as it is where `valid` is false",
        ),
        Mutant(
            "every rollout from 0",
            _fresh_start,
            "the sum starts from 0 in each rollout: episodes span rollouts, so start from `before`",
        ),
        Mutant(
            "nothing handed on",
            _not_handed_on,
            "what is handed on is the sum of before this rollout: return the latest one",
        ),
        Mutant(
            "reward discounted",
            _reward_discounted,
            "the new reward is discounted and the old sum is not; it is the past that fades",
        ),
        Mutant("no discount", _undiscounted, "the discount is missing: multiply the old sum by it"),
    ),
    not_tested="merging the variances of many rollouts.",
)
