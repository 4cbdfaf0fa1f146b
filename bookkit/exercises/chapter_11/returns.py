"""reinforce.returns.1: the reward that is still to come."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def reward_to_go(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Walk backwards; a masked step passes the running value on."""
    running = torch.zeros_like(rewards[:, 0])
    returns = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[1])):
        running = torch.where(mask[:, t], rewards[:, t] + gamma * running, running)
        returns[:, t] = torch.where(mask[:, t], running, 0.0)
    return returns


def oracle(rewards: list[list[float]], mask: list[list[bool]], gamma: float) -> list[list[float]]:
    """The definition: for each counted step, the sum over the counted steps from there on."""
    answer = []
    for row, flags in zip(rewards, mask, strict=True):
        line = []
        for t in range(len(row)):
            later = [row[s] for s in range(t, len(row)) if flags[s]]
            total = math.fsum(gamma**k * reward for k, reward in enumerate(later))
            line.append(total if flags[t] else 0.0)
        answer.append(line)
    return answer


def cases(draw: Draw) -> Case:
    """Prefix masks and masks with holes; numbers under the mask are there to be ignored."""
    rows, columns = draw.dimension(), draw.dimension()
    kind = draw.choice(["a prefix mask", "a mask with holes"])
    if kind == "a prefix mask":
        mask = draw.prefix_mask(rows, columns)
    else:
        mask = draw.holed_mask(rows, columns)
    gamma = draw.choice([1.0, 0.9, 0.5, 0.0])
    inputs = {"rewards": draw.normal(rows, columns), "mask": mask, "gamma": gamma}
    return Case(f"{rows} × {columns}, {kind}", inputs)


def edges() -> tuple[Case, ...]:
    """All done, empty, one step, a hole, nan under the mask, and a long row."""

    def case(name: str, rewards: list[list[float]], mask: list[list[int]], gamma: float) -> Case:
        values = torch.tensor(rewards, dtype=torch.float64)
        return Case(name, {"rewards": values, "mask": torch.tensor(mask).bool(), "gamma": gamma})

    long = torch.ones(2, 240, dtype=torch.float64)
    return (
        case("one step", [[3.0]], [[1]], 0.9),
        case("all steps count", [[1.0, 2.0, 4.0]], [[1, 1, 1]], 0.5),
        case("empty mask", [[1.0, 2.0], [3.0, 1.0]], [[0, 0], [1, 1]], 0.5),
        case("a masked step in the middle", [[1.0, 7.0, 4.0]], [[1, 0, 1]], 0.5),
        case("masked steps first", [[7.0, 7.0, 1.0, 4.0]], [[0, 0, 1, 1]], 0.5),
        case("nan under the mask", [[1.0, 2.0, math.nan]], [[1, 1, 0]], 0.5),
        case("gamma 1", [[0.0, 0.0, 1.0], [1.0, -2.0, 5.0]], [[1, 1, 1], [1, 1, 0]], 1.0),
        case("gamma 0", [[1.0, 2.0, 4.0]], [[1, 1, 1]], 0.0),
        Case("a long row", {"rewards": long, "mask": torch.ones(2, 240).bool(), "gamma": 0.05}),
    )


def _backwards(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """The reference without its final masking, for the mutants to build on."""
    running, columns = torch.zeros_like(rewards[:, 0]), []
    for t in reversed(range(rewards.shape[1])):
        running = torch.where(mask[:, t], rewards[:, t] + gamma * running, running)
        columns.append(running)
    return torch.stack(columns[::-1], dim=1)


def _whole_return(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    first = _backwards(rewards, mask, gamma)[:, :1]
    return torch.where(mask, first, 0.0)


def _forwards(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return reward_to_go(rewards.flip(1), mask.flip(1), gamma).flip(1)


def _from_the_start(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    steps = mask.cumsum(dim=1) - 1
    weights = torch.where(mask, gamma ** steps.clamp(min=0).to(rewards.dtype), 0.0)
    weighted = torch.where(mask, weights * rewards, 0.0)
    return torch.where(mask, weighted.flip(1).cumsum(dim=1).flip(1), 0.0)


def _divided_by_powers(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    steps = (mask.cumsum(dim=1) - 1).clamp(min=0).to(rewards.dtype)
    weights = gamma**steps
    weighted = torch.where(mask, weights * rewards, 0.0)
    return torch.where(mask, weighted.flip(1).cumsum(dim=1).flip(1) / weights, 0.0)


def _no_discount(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return reward_to_go(rewards, mask, 1.0)


def _later_only(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    returns = reward_to_go(rewards, mask, gamma)
    return torch.where(mask, returns - rewards, 0.0)


def _reset(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    running, columns = torch.zeros_like(rewards[:, 0]), []
    for t in reversed(range(rewards.shape[1])):
        running = torch.where(mask[:, t], rewards[:, t] + gamma * running, 0.0)
        columns.append(running)
    return torch.stack(columns[::-1], dim=1)


def _holes_discounted(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    everything = torch.ones_like(mask)
    returns = reward_to_go(torch.where(mask, rewards, 0.0), everything, gamma)
    return torch.where(mask, returns, 0.0)


def _garbage_counted(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    returns = reward_to_go(rewards, torch.ones_like(mask), gamma)
    return torch.where(mask, returns, 0.0)


def _product_with_the_mask(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return reward_to_go(rewards * mask, torch.ones_like(mask), gamma) * mask


def _not_cleared(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return _backwards(rewards, mask, gamma)


def _discounted_reward(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    running, columns = torch.zeros_like(rewards[:, 0]), []
    for t in reversed(range(rewards.shape[1])):
        running = torch.where(mask[:, t], gamma * (rewards[:, t] + running), running)
        columns.append(torch.where(mask[:, t], running, 0.0))
    return torch.stack(columns[::-1], dim=1)


RETURNS = Exercise(
    id="reinforce.returns.1",
    title="Reward to go",
    chapter=11,
    difficulty=2,
    minutes=15,
    goal=(
        "For each response token, the discounted sum of the rewards from there on. Masked steps "
        "are skipped: they add nothing, cost no discount, and get 0 themselves."
    ),
    outputs=(Output("returns", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=reward_to_go,
    mutants=(
        Mutant(
            "the whole return",
            _whole_return,
            "every step gets the return of the whole episode: a token cannot have caused the "
            "rewards before it, so start the sum at its own step",
        ),
        Mutant(
            "summed forwards",
            _forwards,
            "the sum runs forwards, over the rewards up to a step: what counts is what comes "
            "after it, so walk from the end (or flip, cumsum, flip)",
        ),
        Mutant(
            "discounted from the start",
            _from_the_start,
            "the discount counts from the start of the episode, `gamma**t`; it must count from the "
            "step itself, so the step's own reward has weight 1",
        ),
        Mutant(
            "divided by powers of gamma",
            _divided_by_powers,
            "dividing by `gamma**t` is right on paper, but the powers underflow to 0 on a long row "
            "or for gamma 0, and 0/0 is nan: walk backwards instead",
        ),
        Mutant("no discount", _no_discount, "`gamma` has no effect on the result: it is as if 1"),
        Mutant(
            "own reward left out",
            _later_only,
            "the step's own reward is missing: the reward at t is the consequence of token t",
        ),
        Mutant(
            "reset at masked steps",
            _reset,
            "a masked step sets the running sum to 0, so the tokens before a hole never hear of "
            "the reward after it: pass the running value on unchanged",
        ),
        Mutant(
            "holes cost a discount",
            _holes_discounted,
            "a masked step multiplies by gamma although it is no step of the policy: skip it",
        ),
        Mutant(
            "rewards under the mask",
            _garbage_counted,
            "rewards under the mask enter the sum: they are to be ignored, whatever stands there",
        ),
        Mutant(
            "product with the mask",
            _product_with_the_mask,
            "multiplying by the mask leaves nan where nan stands (0 · nan is nan), and then a "
            "masked step still costs a discount: choose with `torch.where`",
        ),
        Mutant(
            "masked steps not cleared",
            _not_cleared,
            "masked steps hold the running value; they must be 0",
        ),
        Mutant(
            "own reward discounted",
            _discounted_reward,
            "`gamma` also multiplies the step's own reward: only what comes later is discounted",
        ),
    ),
    not_tested="speed (a loop over T is fine here), and a value function after a truncated row.",
)
