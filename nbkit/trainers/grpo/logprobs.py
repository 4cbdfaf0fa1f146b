"""Log-probabilities of completions under a model, without the columns that nobody reads."""

from torch import Tensor

from nbkit.parallel import Parallel
from nbkit.trainers.completions import Scorer, align, policy_outputs, scored_tokens
from nbkit.trainers.grpo.batch import GroupBatch
from nbkit.trainers.grpo.config import GRPOConfig


def completion_logprobs(model: Scorer, batch: GroupBatch, temperature: float) -> Tensor:
    """Log-probabilities (R, T) of the completions under a model, 0 outside the mask.

    Columns in which no row has a real token are not computed; nor are whole logits, by a model that
    was given ``nbkit.parallel.scoring.attach_scoring``.
    """
    part = align(batch.ids, batch.attention, batch.mask)
    return part.full(policy_outputs(model, part, temperature)[0])


def scored_by(
    model: Scorer, batch: GroupBatch, config: GRPOConfig, *, parallel: Parallel | None = None
) -> Tensor:
    """`completion_logprobs` of a whole batch, in micro-batches and without gradient."""
    return scored_tokens(
        model, None, batch.ids, batch.attention, batch.mask, config, parallel=parallel
    )[0]
