"""ddp.tokens.1: one rank's share of the mean over all tokens."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def local_loss(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    """Local sum over global count, times the ranks that the framework divides by."""
    return torch.where(mask, losses, 0.0).sum() / counts.sum().clamp(min=1) * len(counts)


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


def _masked_sum(losses: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, losses, 0.0).sum()


def _local_mean(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / mask.sum().clamp(min=1)


def _no_world(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.sum().clamp(min=1)


def _over_world(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.sum().clamp(min=1) / len(counts)


def _over_count_times_world(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / mask.sum().clamp(min=1) * len(counts)


def _largest(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.max().clamp(min=1)


def _sum_only(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask)


def _all_entries(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return losses.nan_to_num().sum() / counts.sum().clamp(min=1) * len(counts)


def _rows_first(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    rows = torch.where(mask, losses, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    return rows.mean() * mask.sum() / counts.sum().clamp(min=1) * len(counts)


def _nothing_by_nothing(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.sum() * len(counts)


def _mean_of_none(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    mean = losses[mask].mean()
    return mean * mask.sum() / counts.sum().clamp(min=1) * len(counts)


def _each_at_least_one(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.clamp(min=1).sum() * len(counts)


def _ranks_with_tokens(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return _masked_sum(losses, mask) / counts.sum().clamp(min=1) * (counts > 0).sum()


def _product(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return (losses * mask).sum() / counts.sum().clamp(min=1) * len(counts)


def _detached(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return local_loss(losses.detach(), mask, counts)


TOKENS = Exercise(
    id="ddp.tokens.1",
    title="One rank's share of the mean",
    chapter=32,
    difficulty=2,
    minutes=15,
    goal=(
        "The loss that a rank hands to `backward`, so that the mean over ranks of the gradients is "
        "the gradient of the mean over all tokens of all ranks."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=local_loss,
    gradient_to=("losses",),
    mutants=(
        Mutant(
            "local mean",
            _local_mean,
            "the sum is divided by the rank's own tokens: then a token of a rank with few tokens "
            "weighs more. Divide by the tokens of all ranks",
        ),
        Mutant(
            "framework's division forgotten",
            _no_world,
            "it is too small by the number of ranks: the framework divides by it as well, so "
            "multiply by it here",
        ),
        Mutant(
            "divided by the ranks",
            _over_world,
            "it is divided by the number of ranks, as the framework does once more; multiply",
        ),
        Mutant(
            "local count, times the ranks",
            _over_count_times_world,
            "it is multiplied by the number of ranks, but divided by the rank's own tokens "
            "instead of all ranks'",
        ),
        Mutant(
            "largest count",
            _largest,
            "it divides by the largest count of any rank; the sum of the counts is what the mean "
            "is over",
        ),
        Mutant(
            "sum alone",
            _sum_only,
            "the counts are never used: this is a sum, whose gradient grows with the batch",
        ),
        Mutant(
            "mask not used",
            _all_entries,
            "masked entries are in the sum; only real tokens count",
        ),
        Mutant(
            "rows averaged first",
            _rows_first,
            "each row is averaged first: then a token of a short row weighs more",
        ),
        Mutant(
            "nothing by nothing",
            _nothing_by_nothing,
            "a batch without any token gives 0 / 0, which is nan on every rank: divide by at "
            "least 1",
        ),
        Mutant(
            "mean of nothing",
            _mean_of_none,
            "the local mean is taken first and multiplied by the count afterwards: on a rank "
            "without a token that is nan · 0, which is nan. Divide the sum by the count of all",
        ),
        Mutant(
            "each count at least 1",
            _each_at_least_one,
            "each rank's count is raised to 1 before they are added, so a rank without a token "
            "counts as one: add first, then take at least 1",
        ),
        Mutant(
            "ranks with tokens",
            _ranks_with_tokens,
            "it is multiplied by the number of ranks that have a token; the framework divides by "
            "the number of all ranks",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
        Mutant(
            "no gradient",
            _detached,
            "the value is right, but no gradient reaches `losses`",
        ),
    ),
    not_tested="micro-batches, for which the counts are those of the whole step.",
)
