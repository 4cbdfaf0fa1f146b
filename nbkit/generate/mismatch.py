"""Engine and trainer are two programs: their log-probabilities of one token are not quite equal.

In float32 they agree to about 1e-5. In bfloat16 each rounds in its own order, and the ratio
π_train / π_engine of a token strays from 1 although the weights are the same. The rollouts are
then slightly off-policy. Truncated importance weights (``nbkit.losses.importance_weights``) repair
the expectation, and their bound keeps a few tokens from ruling the gradient.
"""

import torch
from torch import Tensor

from nbkit.generate.result import Generation
from nbkit.generate.sampling import filtered_logprobs
from nbkit.generate.weights import unwrap
from nbkit.text.protocols import LanguageModel


def trainer_logprobs(
    model: LanguageModel,
    generation: Generation,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rows: int = 8,
) -> Tensor:
    """Log-probabilities of the sampled tokens by one pass of the module over whole sequences.

    Args:
        model: as for ``generate``, on the device of the generation.
        generation: what was sampled.
        temperature: that it was sampled with.
        top_k: that it was sampled with.
        top_p: that it was sampled with.
        rows: sequences that pass through the model at one time.

    Returns:
        (R, T) float32, 0 where the mask is False. No gradient.

    """
    module = unwrap(model)
    width = generation.tokens.shape[1]
    ids, attention = generation.ids, generation.attention
    places = generation.position_ids
    out = torch.zeros_like(generation.logprobs)
    with torch.no_grad():
        for start in range(0, ids.shape[0], rows):
            part = slice(start, start + rows)
            logits = module(
                input_ids=ids[part],
                attention_mask=attention[part].long(),
                position_ids=places[part],
                use_cache=False,
            ).logits[:, -width - 1 : -1]
            logp = filtered_logprobs(logits, temperature=temperature, top_k=top_k, top_p=top_p)
            out[part] = logp.gather(-1, generation.tokens[part][..., None])[..., 0]
    return out.masked_fill(~generation.mask, 0.0)


def ratio(train_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> Tensor:
    """π_train / π_engine of each sampled token, (R, T); 1 where the mask is False.

    Raises:
        ValueError: shapes that differ.

    """
    if not train_logprobs.shape == rollout_logprobs.shape == mask.shape:
        raise ValueError(
            "rollout_logprobs and mask must have the shape of train_logprobs, "
            f"{tuple(train_logprobs.shape)}; got {tuple(rollout_logprobs.shape)} and "
            f"{tuple(mask.shape)}"
        )
    difference = (train_logprobs - rollout_logprobs).masked_fill(~mask, 0.0)
    return difference.exp()
