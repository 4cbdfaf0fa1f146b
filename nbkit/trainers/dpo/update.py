"""From pairs to a gradient, on one rank or several: the same for stored pairs and sampled ones."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nbkit.parallel import Parallel
from nbkit.trainers.dpo.batch import PairBatch, PairScores, pair_scores
from nbkit.trainers.dpo.config import DPOConfig
from nbkit.trainers.dpo.loss import dpo_loss
from nbkit.trainers.shares import backward_parts, interleaved


def accumulate_pairs(
    parallel: Parallel,
    pairs: int,
    tokens: int,
    config: DPOConfig,
    *,
    stacked: Callable[[list[int]], PairBatch],
    scored: Callable[[list[int], PairBatch], PairScores],
) -> tuple[float, PairScores, PairScores | None]:
    """Add the gradient of a batch to ``.grad``; return its loss and both models' scores.

    Each rank computes every size-th of the pairs; loss and scores are those of all.

    Args:
        parallel: of the policy.
        pairs: B, how many there are on all ranks together, at least one.
        tokens: in their chosen answers; what the likelihood of ``sft_coefficient`` is divided by.
        config: of the loss, and how many pairs make one forward pass.
        stacked: makes a batch of the pairs with these numbers, 0 to B-1.
        scored: gives the reference's scores of these pairs; not called where the loss has none.

    Returns:
        the loss; the policy's scores, detached, (B,) each; the reference's, None if it has none.

    """
    own = list(range(pairs))[parallel.world.rank :: parallel.world.size]
    size, total = config.micro_pairs or max(1, len(own)), 0.0
    seen, fixed = list[PairScores](), list[PairScores]()

    def run(part: list[int]) -> tuple[Tensor, tuple[PairScores, PairScores | None]]:
        batch = stacked(part)
        scores = pair_scores(parallel.model, batch)
        reference = scored(part, batch) if config.reads_reference else None
        loss: Tensor = dpo_loss(scores, reference, config).sum() / pairs
        if config.sft_coefficient:
            loss = loss - config.sft_coefficient * scores.chosen.sum() / tokens
        return loss, (PairScores(*(field.detach() for field in scores)), reference)

    parts = [own[start : start + size] for start in range(0, len(own), size)]
    for loss, (scores, reference) in backward_parts(parallel, parts, [0], run):
        total += loss.item()
        seen.append(scores)
        if reference is not None:
            fixed.append(reference)
    whole = whole_scores(parallel, seen)
    return (
        parallel.total(total)[0],
        whole,
        whole_scores(parallel, fixed) if config.reads_reference else None,
    )


def whole_scores(parallel: Parallel, parts: Sequence[PairScores]) -> PairScores:
    """Scores that each rank made of every size-th of some pairs, in the order of the pairs.

    Args:
        parallel: who took part.
        parts: this rank's, in order; none if it had no pair.

    """
    own = [torch.cat(fields).cpu() for fields in zip(*parts, strict=True)]
    every = parallel.everyone(tuple(own or [torch.zeros(0)] * len(PairScores._fields)))
    fields = [interleaved(shares) for shares in zip(*every, strict=True)]
    return PairScores(*(field.to(parallel.world.device) for field in fields))
