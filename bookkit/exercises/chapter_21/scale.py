"""rlhf.scale.1: rewards of one scale, with their mean left where it is."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

EPS = 1e-8


def scale_rewards(rewards: Tensor, mask: Tensor) -> Tensor:
    """Divide the deviations by their standard deviation, and keep the mean."""
    counted = rewards[mask]
    result = torch.zeros_like(rewards)
    if counted.numel():
        result[mask] = _scaled(counted, 1) + counted.mean()
    return result


def _scaled(counted: Tensor, ddof: int) -> Tensor:
    deviations = counted - counted.mean()
    if counted.numel() <= ddof:
        return torch.zeros_like(counted)
    return deviations / (counted.std(correction=ddof) + EPS)


def oracle(rewards: list[list[float]], mask: list[list[bool]]) -> list[list[float]]:
    """Sums over all that counts, written out."""
    counted = [
        r
        for row, counts in zip(rewards, mask, strict=True)
        for r, c in zip(row, counts, strict=True)
        if c
    ]
    mean = math.fsum(counted) / max(1, len(counted))
    squares = math.fsum((r - mean) ** 2 for r in counted)
    spread = math.sqrt(squares / (len(counted) - 1)) if len(counted) > 1 else 0.0
    return [
        [(r - mean) / (spread + EPS) + mean if c else 0.0 for r, c in zip(row, counts, strict=True)]
        for row, counts in zip(rewards, mask, strict=True)
    ]


def cases(draw: Draw) -> Case:
    """Rewards of any scale around any mean."""
    rows, columns = draw.dimension(), draw.dimension()
    scale, mean = draw.choice([0.1, 1.0, 20.0]), draw.choice([-3.0, 0.0, 2.0])
    inputs = {
        "rewards": draw.normal(rows, columns) * scale + mean,
        "mask": draw.holed_mask(rows, columns),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Two values, equal ones, one, none, pads, several rows, nan under the mask."""

    def case(name: str, rewards: list[list[float]], mask: list[str]) -> Case:
        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "mask": torch.tensor([[letter == "1" for letter in row] for row in mask]),
        }
        return Case(name, inputs)

    return (
        case("two values", [[1.0, 5.0]], ["11"]),
        case("around zero", [[-4.0, 4.0]], ["11"]),
        case("equal values", [[2.0, 2.0, 2.0]], ["111"]),
        case("one value", [[3.0]], ["1"]),
        case("one value counts", [[3.0, 9.0]], ["10"]),
        case("nothing counts", [[3.0, 9.0]], ["00"]),
        case("a pad", [[1.0, 5.0, 100.0]], ["110"]),
        case("two rows", [[1.0, 5.0], [20.0, 26.0]], ["11", "11"]),
        case("nan under the mask", [[1.0, 5.0, math.nan]], ["110"]),
        case("a small scale", [[0.01, 0.03, -0.02]], ["111"]),
    )


def _centred(rewards: Tensor, mask: Tensor) -> Tensor:
    counted, result = rewards[mask], torch.zeros_like(rewards)
    if counted.numel():
        result[mask] = _scaled(counted, 1)
    return result


def _divided(rewards: Tensor, mask: Tensor) -> Tensor:
    counted, result = rewards[mask], torch.zeros_like(rewards)
    if counted.numel() > 1:
        spread = counted.std()
        result[mask] = counted / (spread + EPS) if spread > 0 else counted
    elif counted.numel():
        result[mask] = counted
    return result


def _nan_for_one(rewards: Tensor, mask: Tensor) -> Tensor:
    counted, result = rewards[mask], torch.zeros_like(rewards)
    mean = counted.mean()
    result[mask] = (counted - mean) / (counted.std() + EPS) + mean
    return result


def _biased(rewards: Tensor, mask: Tensor) -> Tensor:
    counted, result = rewards[mask], torch.zeros_like(rewards)
    if counted.numel():
        result[mask] = _scaled(counted, 0) + counted.mean()
    return result


def _pads(rewards: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, scale_rewards(rewards, torch.ones_like(mask)), 0.0)


def _zeros(rewards: Tensor, mask: Tensor) -> Tensor:
    kept = torch.where(mask, rewards, 0.0)
    return torch.where(mask, scale_rewards(kept, torch.ones_like(mask)), 0.0)


def _by_row(rewards: Tensor, mask: Tensor) -> Tensor:
    rows = zip(rewards, mask, strict=True)
    return torch.cat([scale_rewards(r[None], m[None]) for r, m in rows])


def _variance(rewards: Tensor, mask: Tensor) -> Tensor:
    counted, result = rewards[mask], torch.zeros_like(rewards)
    if counted.numel() > 1:
        mean = counted.mean()
        result[mask] = (counted - mean) / (counted.var() + EPS) + mean
    else:
        result[mask] = counted
    return result


def _pads_get_the_mean(rewards: Tensor, mask: Tensor) -> Tensor:
    counted = rewards[mask]
    mean = counted.mean() if counted.numel() else rewards.new_zeros(())
    return torch.where(mask, scale_rewards(rewards, mask), mean)


def _product(rewards: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum().clamp(min=1)
    mean = (rewards * mask).sum() / counts
    squares = ((rewards - mean) ** 2 * mask).sum()
    spread = (squares / (counts - 1).clamp(min=1)).sqrt()
    return ((rewards - mean) / (spread + EPS) + mean) * mask


SCALE = Exercise(
    id="rlhf.scale.1",
    title="One scale, the mean untouched",
    chapter=21,
    difficulty=2,
    minutes=15,
    goal=(
        "Divide the deviations from the mean by the standard deviation (n - 1) over all counted "
        "rewards and add the mean back; equal or single rewards stay, and pads get 0."
    ),
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=scale_rewards,
    mutants=(
        Mutant(
            "centred",
            _centred,
            "the mean is gone: it was moved to 0, and with it the reward of every token, so that "
            "an answer is punished or paid for its length. Add the mean back",
        ),
        Mutant(
            "everything divided",
            _divided,
            "the mean is divided as well: only the deviations are scaled, then the mean is added",
        ),
        Mutant(
            "nan for one",
            _nan_for_one,
            "a single reward has no standard deviation, and the result is nan: leave it as it is",
        ),
        Mutant(
            "divided by n",
            _biased,
            "the variance is divided by n; n - 1 is asked for (`correction=1`, torch's default)",
        ),
        Mutant(
            "pads counted",
            _pads,
            "what the mask hides enters mean and standard deviation",
        ),
        Mutant(
            "pads counted as zeros",
            _zeros,
            "pads enter as zeros: a batch with more padding would have another mean and another "
            "spread. Select the counted rewards first",
        ),
        Mutant(
            "row by row",
            _by_row,
            "each answer is scaled by itself, so that a good and a bad one look alike: take mean "
            "and standard deviation over the batch",
        ),
        Mutant(
            "variance",
            _variance,
            "the deviations are divided by the variance: take its root",
        ),
        Mutant(
            "pads get the mean",
            _pads_get_the_mean,
            "pads are given the mean: what does not count gets 0",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan where it hides nan (0 · nan is nan): select with "
            "`rewards[mask]` or `torch.where`",
        ),
    ),
    not_tested="a running estimate over batches, and several processes.",
)
