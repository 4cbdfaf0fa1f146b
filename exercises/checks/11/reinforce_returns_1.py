"""reinforce.returns.1: the reward that is still to come."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="reinforce.returns.1",
    outputs=(Output("returns", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the whole return",
            "return returns",
            "return torch.where(mask, running[:, None], 0.0)",
            "every step gets the return of the whole episode: a token cannot have caused "
            "the rewards before it, so start the sum at its own step",
        ),
        edit(
            "summed forwards",
            "reversed(range(rewards.shape[1]))",
            "range(rewards.shape[1])",
            "the sum runs forwards, over the rewards up to a step: what counts is what "
            "comes after it, so walk from the end (or flip, cumsum, flip)",
        ),
        edit(
            "discounted from the start",
            "return returns",
            "steps = (mask.cumsum(dim=1) - 1).clamp(min=0)\n"
            "    weighted = torch.where(mask, gamma**steps.to(rewards.dtype) * rewards, "
            "0.0)\n"
            "    return torch.where(mask, weighted.flip(1).cumsum(dim=1).flip(1), 0.0)",
            "the discount counts from the start of the episode, `gamma**t`; it must count "
            "from the step itself, so the step's own reward has weight 1",
        ),
        edit(
            "divided by powers of gamma",
            "return returns",
            "weights = gamma ** (mask.cumsum(dim=1) - 1).clamp(min=0).to(rewards.dtype)\n"
            "    weighted = torch.where(mask, weights * rewards, 0.0)\n"
            "    return torch.where(mask, weighted.flip(1).cumsum(dim=1).flip(1) / "
            "weights, 0.0)",
            "dividing by `gamma**t` is right on paper, but the powers underflow to 0 on a "
            "long row or for gamma 0, and 0/0 is nan: walk backwards instead",
        ),
        edit(
            "no discount", "gamma *", "1.0 *", "`gamma` has no effect on the result: it is as if 1"
        ),
        edit(
            "own reward left out",
            "return returns",
            "return torch.where(mask, returns - rewards, 0.0)",
            "the step's own reward is missing: the reward at t is the consequence of token t",
        ),
        edit(
            "reset at masked steps",
            "running, running",
            "running, 0",
            "a masked step sets the running sum to 0, so the tokens before a hole never "
            "hear of the reward after it: pass the running value on unchanged",
        ),
        edit(
            "holes cost a discount",
            "running, running)",
            "running, gamma * running)",
            "a masked step multiplies by gamma although it is no step of the policy: skip it",
        ),
        edit(
            "rewards under the mask",
            "torch.where(mask[:, t], rewards[:, t] + gamma * running, running)",
            "rewards[:, t] + gamma * running",
            "rewards under the mask enter the sum: they are to be ignored, whatever stands there",
        ),
        edits(
            "product with the mask",
            (
                "torch.where(mask[:, t], rewards[:, t] + gamma * running, running)",
                "rewards[:, t] * mask[:, t] + gamma * running",
            ),
            ("torch.where(mask[:, t], running, 0.0)", "running * mask[:, t]"),
            message="multiplying by the mask leaves nan where nan stands (0 · nan is nan), and "
            "then a masked step still costs a discount: choose with `torch.where`",
        ),
        edit(
            "masked steps not cleared",
            "torch.where(mask[:, t], running, 0.0)",
            "running",
            "masked steps hold the running value; they must be 0",
        ),
        edit(
            "own reward discounted",
            "rewards[:, t] + gamma * running",
            "gamma * (rewards[:, t] + running)",
            "`gamma` also multiplies the step's own reward: only what comes later is discounted",
        ),
    ),
    not_tested="speed (a loop over T is fine here), and a value function after a truncated row.",
    wide=("rewards",),
    special=(("gamma", 0.99),),
)
