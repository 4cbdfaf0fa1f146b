"""ddp.tokens.1: one rank's share of the mean over all tokens."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(losses: list[list[float]], mask: list[list[bool]], counts: list[int]) -> float:
    """Token by token: each real token weighs P over all tokens."""
    share = len(counts) / max(1, sum(counts))
    total = 0.0
    for row, real in zip(losses, mask, strict=True):
        for loss, counted in zip(row, real, strict=True):
            if counted:
                total += share * loss
    return total


def cases(draw: Draw) -> Case:
    """One rank of one to four, with its own count among those of the others."""
    shape = draw.dimension(), draw.dimension()
    mask = draw.prefix_mask(*shape)
    ranks = draw.integer(1, 4)
    counts = draw.integers(1, 12, ranks)
    counts[draw.integer(0, ranks - 1)] = mask.sum()
    inputs = {"losses": draw.uniform(0.1, 4.0, *shape), "mask": mask, "counts": counts}
    return Case(f"{ranks} ranks, {int(mask.sum())} tokens here", inputs)


def edges() -> tuple[Case, ...]:
    """The numbers of the chapter, one rank, a rank without a token, nobody with a token, nan."""

    def case(
        name: str, losses: list[list[float]], mask: list[list[int]], counts: list[int]
    ) -> Case:
        inputs = {
            "losses": torch.tensor(losses, dtype=torch.float64),
            "mask": torch.tensor(mask).bool(),
            "counts": torch.tensor(counts),
        }
        return Case(name, inputs)

    return (
        case("one rank", [[1.0, 2.0, 6.0]], [[1, 1, 1]], [3]),
        case("the hand example, rank 0", [[1.0, 1.0]], [[1, 1]], [2, 1]),
        case("the hand example, rank 1", [[4.0, 9.0]], [[1, 0]], [2, 1]),
        case("two rows", [[1.0, 2.0, 4.0], [8.0, 5.0, 7.0]], [[1, 1, 1], [1, 0, 0]], [4, 2, 9]),
        case("a rank without a token", [[5.0, 6.0]], [[0, 0]], [0, 3]),
        case("the others have no token", [[1.0, 3.0]], [[1, 1]], [2, 0]),
        case("the only token of all", [[3.0, 7.0]], [[1, 0]], [1, 0]),
        case("no token here, one there", [[3.0, 7.0]], [[0, 0]], [0, 1, 0]),
        case("nobody has a token", [[5.0]], [[0]], [0, 0]),
        case("nan under the mask", [[1.0, float("nan")]], [[1, 0]], [1, 3]),
        case("many ranks", [[2.0, 3.0]], [[1, 1]], [2, 5, 1, 8]),
    )


CHECK = Check(
    id="ddp.tokens.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "local mean",
            "counts.sum().clamp(min=1) * len(counts)",
            "mask.sum().clamp(min=1)",
            "the sum is divided by the rank's own tokens: then a token of a rank with few "
            "tokens weighs more. Divide by the tokens of all ranks",
        ),
        edit(
            "framework's division forgotten",
            "len(counts)",
            "1",
            "it is too small by the number of ranks: the framework divides by it as well, "
            "so multiply by it here",
        ),
        edit(
            "divided by the ranks",
            "local_sum / counts.sum().clamp(min=1) *",
            "torch.where(mask, losses, 0.0).sum() / counts.sum().clamp(min=1) /",
            "it is divided by the number of ranks, as the framework does once more; multiply",
        ),
        edit(
            "local count, times the ranks",
            "counts.sum()",
            "mask.sum()",
            "it is multiplied by the number of ranks, but divided by the rank's own "
            "tokens instead of all ranks'",
        ),
        edit(
            "largest count",
            "counts.sum().clamp(min=1) * len(counts)",
            "counts.max().clamp(min=1)",
            "it divides by the largest count of any rank; the sum of the counts is what "
            "the mean is over",
        ),
        edit(
            "sum alone",
            "local_sum / counts.sum().clamp(min=1) * len(counts)",
            "torch.where(mask, losses, 0.0).sum()",
            "the counts are never used: this is a sum, whose gradient grows with the batch",
        ),
        edit(
            "mask not used",
            "torch.where(mask, losses, 0.0)",
            "losses.nan_to_num()",
            "masked entries are in the sum; only real tokens count",
        ),
        edit(
            "rows averaged first",
            "torch.where(mask, losses, 0.0).sum()",
            "torch.where(mask, losses, 0.0).sum(1) / mask.sum(1).clamp(min=1)\n"
            "    local_sum = local_sum.mean() * mask.sum()",
            "each row is averaged first: then a token of a short row weighs more",
        ),
        edit(
            "nothing by nothing",
            ".clamp(min=1)",
            "",
            "a batch without any token gives 0 / 0, which is nan on every rank: divide by "
            "at least 1",
        ),
        edit(
            "mean of nothing",
            "torch.where(mask, losses, 0.0).sum()",
            "losses[mask].mean() * mask.sum()",
            "the local mean is taken first and multiplied by the count afterwards: on a "
            "rank without a token that is nan · 0, which is nan. Divide the sum by the "
            "count of all",
        ),
        edit(
            "each count at least 1",
            "local_sum / counts.sum().clamp(min=1)",
            "torch.where(mask, losses, 0.0).sum() / counts.clamp(min=1).sum()",
            "each rank's count is raised to 1 before they are added, so a rank without a "
            "token counts as one: add first, then take at least 1",
        ),
        edit(
            "ranks with tokens",
            "len(counts)",
            "(counts > 0).sum()",
            "it is multiplied by the number of ranks that have a token; the framework "
            "divides by the number of all ranks",
        ),
        edit(
            "product with the mask",
            "torch.where(mask, losses, 0.0)",
            "(losses * mask)",
            "multiplying by the mask leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
        edit(
            "no gradient",
            "local_sum =",
            "losses = losses.detach()\n    local_sum =",
            "the value is right, but no gradient reaches `losses`",
        ),
    ),
    not_tested="micro-batches, for which the counts are those of the whole step.",
    connected=True,  # a rank without a token takes part in the backward pass all the same
    gradient_to=("losses",),
    wide=("losses",),
    holed=("mask",),
)
