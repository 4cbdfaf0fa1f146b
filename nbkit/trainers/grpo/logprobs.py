"""Log-probabilities of completions under a model, without the columns that nobody reads."""

import torch
from torch import Tensor

from nbkit.logprobs import token_logprobs
from nbkit.masks import position_ids
from nbkit.parallel import Parallel
from nbkit.parallel.scoring import scores_tokens
from nbkit.trainers.grpo.batch import GroupBatch
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.protocols import LanguageModel
from nbkit.trainers.spread import own_parts, spread_over


def completion_logprobs(model: LanguageModel, batch: GroupBatch, temperature: float) -> Tensor:
    """Log-probabilities (R, T) of the completions under a model, 0 outside the mask.

    Columns in which no row has a real token are not computed; nor are whole logits, by a model that
    was given ``nbkit.parallel.scoring.attach_scoring``.
    """
    width = batch.mask.shape[1]
    start = batch.ids.shape[1] - width
    first = int(batch.attention.any(0).to(torch.uint8).argmax())
    length = int(batch.attention[:, start:].sum(1).max())
    used = slice(first, start + length)
    attention = batch.attention[:, used]
    counted, inputs = (
        batch.mask[:, :length],
        {
            "input_ids": batch.ids[:, used],
            "attention_mask": attention.long(),
            "position_ids": position_ids(attention),
            "use_cache": False,
        },
    )
    if scores_tokens(model):
        every = model(**inputs, score=batch.ids[:, used], temperature=temperature)
        logp = torch.where(counted, every[:, every.shape[1] - length :], 0.0)
    else:
        logits = model(**inputs, logits_to_keep=length + 1).logits
        targets = batch.ids[:, start : start + length]
        logp = token_logprobs(logits[:, :-1], targets, temperature=temperature, mask=counted)
    return torch.nn.functional.pad(logp, (0, width - length))


@torch.no_grad()
def scored_by(
    model: LanguageModel, batch: GroupBatch, config: GRPOConfig, *, parallel: Parallel | None = None
) -> Tensor:
    """`completion_logprobs` of a whole batch, in micro-batches and without gradient."""
    spread = spread_over(parallel, model)
    out = torch.zeros_like(batch.logprobs)
    for rows in own_parts(batch.attention, spread, config.micro_tokens, config.micro_rows):
        chosen = torch.zeros(1, dtype=torch.long) if rows is None else rows
        logp = completion_logprobs(model, batch.rows(chosen), config.temperature)
        if rows is not None:  # else the other ranks needed this one's shards
            out[rows] = logp
    return spread.sum(out)
