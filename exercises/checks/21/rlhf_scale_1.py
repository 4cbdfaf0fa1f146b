"""rlhf.scale.1: rewards of one scale, with their mean left where it is."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

EPS = 1e-8


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


CHECK = Check(
    id="rlhf.scale.1",
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "centred",
            ("result[mask] = counted\n", "result[mask] = counted - counted\n"),
            (" + mean", ""),
            message="the mean is gone: it was moved to 0, and with it the reward of every token, "
            "so that an answer is punished or paid for its length. Add the mean back",
        ),
        edit(
            "everything divided",
            "(counted - mean) / (counted.std() + 1e-8) + mean",
            "counted / (counted.std() + 1e-8) if counted.std() > 0 else counted",
            "the mean is divided as well: only the deviations are scaled, then the mean is added",
        ),
        edit(
            "nan for one",
            "2",
            "0",
            "a single reward has no standard deviation, and the result is nan: leave it as it is",
        ),
        edit(
            "divided by n",
            "std()",
            "std(correction=0)",
            "the variance is divided by n; n - 1 is asked for (`correction=1`, torch's default)",
        ),
        edits(
            "pads counted",
            (
                "counted = rewards[mask]",
                "kept, mask = mask, torch.ones_like(mask)\n    counted = rewards[mask]",
            ),
            (
                "result[mask] = (counted - mean) / (counted.std() + 1e-8) + mean\n"
                "    return result",
                "result[mask] = (counted - mean) / (counted.std() + 1e-8) + mean\n"
                "    return torch.where(kept, result, 0.0)",
            ),
            (
                "result[mask] = counted\n        return result",
                "result[mask] = counted\n        return torch.where(kept, result, 0.0)",
            ),
            message="what the mask hides enters mean and standard deviation",
        ),
        edit(
            "pads counted as zeros",
            "counted = rewards[mask]",
            "rewards = torch.where(mask, rewards, 0.0)\n"
            "    kept, mask = mask, torch.ones_like(mask)\n"
            "    counted = rewards[mask]",
            "pads enter as zeros: a batch with more padding would have another mean and "
            "another spread. Select the counted rewards first",
        ),
        edit(
            "row by row",
            "    counted = rewards[mask]\n",
            "    if len(rewards) > 1:\n"
            "        rows = zip(rewards[:, None], mask[:, None])\n"
            "        return torch.cat([scale_rewards(*row) for row in rows])\n"
            "    counted = rewards[mask]\n",
            "each answer is scaled by itself, so that a good and a bad one look alike: "
            "take mean and standard deviation over the batch",
        ),
        edit(
            "variance",
            "counted.std",
            "counted.var",
            "the deviations are divided by the variance: take its root",
        ),
        edit(
            "pads get the mean",
            "torch.zeros_like(rewards)",
            "torch.full_like(rewards, counted.mean() if counted.numel() else 0.0)",
            "pads are given the mean: what does not count gets 0",
        ),
        edit(
            "product with the mask",
            "    counted = rewards[mask]\n",
            "    counts = mask.sum().clamp(min=1)\n"
            "    mean = (rewards * mask).sum() / counts\n"
            "    spread = (((rewards - mean) ** 2 * mask).sum() / (counts - "
            "1).clamp(min=1)).sqrt()\n"
            "    return ((rewards - mean) / (spread + 1e-8) + mean) * mask\n"
            "    counted = rewards[mask]\n",
            "multiplying by the mask leaves nan where it hides nan (0 · nan is nan): "
            "select with `rewards[mask]` or `torch.where`",
        ),
    ),
    not_tested="a running estimate over batches, and several processes.",
    wide=("rewards",),
    holed=("mask",),
)
