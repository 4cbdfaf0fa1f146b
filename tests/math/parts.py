"""A batch of every length and its losses, whole or in parts, in float64."""

import torch
from torch import Tensor

from nbkit.logprobs import token_logprobs
from nbkit.losses import cispo_loss, policy_gradient_loss, ppo_clip_loss, value_loss
from nbkit.masks import aggregate

VOCABULARY, MAX_TOKENS = 5, 8
Batch = dict[str, Tensor]


def batch_of(rows: int, seed: int, *, with_empty_rows: bool = True) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(
        0 if with_empty_rows else 1, MAX_TOKENS + 1, (rows,), generator=generator
    )
    double = {"generator": generator, "dtype": torch.float64}
    return {
        "features": torch.randn(rows, MAX_TOKENS, 3, **double),
        "tokens": torch.randint(0, VOCABULARY, (rows, MAX_TOKENS), generator=generator),
        "old_logp": -1.6 + 0.3 * torch.randn(rows, MAX_TOKENS, **double),
        "advantages": torch.randn(rows, 1, **double),
        "mask": torch.arange(MAX_TOKENS) < lengths[:, None],
    }


LOSSES = {
    "policy_gradient": lambda logp, b: policy_gradient_loss(logp, b["advantages"], mask=b["mask"]),
    "ppo": lambda logp, b: ppo_clip_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], dual_clip=3.0
    ),
    "gspo": lambda logp, b: ppo_clip_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], ratio="sequence"
    ),
    "cispo": lambda logp, b: cispo_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], clip_low=0.2, clip_high=0.28
    ),
    "value": lambda logp, b: value_loss(
        logp, b["old_logp"] + 1, old_values=b["old_logp"], clip=0.2, mask=b["mask"]
    ),
}


def loss_of(weight: Tensor, batch: Batch, name: str, mode: str, **counts: object) -> Tensor:
    logits = batch["features"] @ weight
    per_token = LOSSES[name](token_logprobs(logits, batch["tokens"]), batch)
    return aggregate(per_token, batch["mask"], mode, max_tokens=MAX_TOKENS, **counts)
