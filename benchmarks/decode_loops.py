"""The ladder: four ways to decode, each faster than the one before, all with the same tokens.

Naive: the whole sequence through the model for every token. Cached: keys and values are kept, and
a step reads one token. Padded: many prompts at one time, aligned by padding on the left. Static:
the cache is memory of fixed size, written in place. `generate` goes on from there.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.generate.attention import decode_attention
from nbkit.generate.backends import from_lists
from nbkit.generate.inputs import eos_tuple
from nbkit.generate.model import Decoder
from nbkit.generate.options import Sampling
from nbkit.generate.result import Generation, left_pad
from nbkit.generate.sampling import draw, gumbel_noise, row_seeds
from nbkit.generate.weights import unwrap
from nbkit.masks import position_ids


class _Rows:
    """The answers of a batch while they grow; how they are sampled, see ``generate``."""

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        device: torch.device,
        *,
        seeds: Any = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        eos_ids: int | Sequence[int] | None = None,
    ) -> None:
        self.prompts = [list(prompt) for prompt in prompts]
        self.limit = max_new_tokens
        self.sampling = Sampling(temperature, top_k, top_p, eos_tuple(eos_ids))
        self.seeds = row_seeds(seeds, len(self.prompts), device)
        self.tokens: list[Tensor] = []
        self.logprobs: list[Tensor] = []
        self.running = torch.ones(len(self.prompts), dtype=torch.bool, device=device)

    @property
    def going(self) -> bool:
        """Whether another step is needed."""
        return len(self.tokens) < self.limit and bool(self.running.any())

    def draw(self, logits: Tensor) -> Tensor:
        """Draw a token a row of logits (B, V), note it, and return it (B,)."""
        sampling = self.sampling
        noise = None
        if sampling.temperature:
            count = torch.full_like(self.seeds, len(self.tokens))
            noise = gumbel_noise(self.seeds, count, logits.shape[-1])
        tokens, logprobs = draw(
            logits,
            noise,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        )
        self.tokens.append(torch.where(self.running, tokens, -1))
        self.logprobs.append(logprobs)
        for eos in sampling.eos_ids:
            self.running = self.running & (tokens != eos)
        return tokens

    def generation(self) -> Generation:
        """All rows as a ``Generation``."""
        tokens = torch.stack(self.tokens, 1).tolist()
        scores = torch.stack(self.logprobs, 1).tolist()
        kept = [[token for token in row if token >= 0] for row in tokens]
        cut = [row[: len(some)] for row, some in zip(scores, kept, strict=True)]
        pad = self.sampling.eos_ids[0] if self.sampling.eos_ids else 0
        return from_lists(self.prompts, kept, cut, self.sampling, pad)


@torch.no_grad()
def naive_loop(
    model: Any,
    prompt: Sequence[int],
    max_new_tokens: int,
    **sampling: Any,
) -> Generation:
    """One prompt, no cache: T tokens cost 1 + 2 + … passes over a token each, O(T²).

    Args:
        model: see ``generate``; called as a module, and put in evaluation mode by the caller.
        prompt: token ids.
        max_new_tokens: limit.
        sampling: seeds, temperature, top_k, top_p, eos_ids: see ``generate``.

    """
    module = unwrap(model)
    device = next(module.parameters()).device
    rows = _Rows([prompt], max_new_tokens, device, **sampling)
    ids = torch.tensor([list(prompt)], device=device)
    while rows.going:
        logits = module(input_ids=ids, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, rows.draw(logits)[:, None]], 1)
    return rows.generation()


@torch.no_grad()
def padded_loop(
    model: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    **sampling: Any,
) -> Generation:
    """Many prompts, padded on the left so that all newest tokens stand in one column.

    The cache grows by a column a step, which copies it. Two things have to be right: positions
    count real tokens only, and no token looks at padding.

    Args:
        model: see ``generate``.
        prompts: lists of token ids.
        max_new_tokens: limit.
        sampling: seeds, temperature, top_k, top_p, eos_ids: see ``generate``.

    """
    decoder = Decoder(model)
    rows = _Rows(prompts, max_new_tokens, decoder.device, **sampling)
    ids, real = left_pad(rows.prompts, device=decoder.device)
    places = position_ids(real)
    cache: dict[int, tuple[Tensor, Tensor]] = {}
    scale = decoder.shape.scale
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
    # A padding token may look at itself: a row of a softmax needs something to look at.
    itself = torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device)
    seen = (causal & real[:, None]) | itself

    def read(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        cache[layer] = key.transpose(1, 2), value.transpose(1, 2)
        return masked_attention(query, *cache[layer], seen[:, None], scale)

    def grow(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = cache[layer]
        keys = torch.cat([keys, key.transpose(1, 2)], 2)
        values = torch.cat([values, value.transpose(1, 2)], 2)
        cache[layer] = keys, values
        return decode_attention(query[:, 0], keys, values, real[:, None, None], scale)

    longest = max(map(len, rows.prompts)) + max_new_tokens
    hidden = decoder.run(ids, places, read, longest)
    newest = places[:, -1:]
    while rows.going:
        tokens = rows.draw(decoder.logits(hidden[:, -1]))
        newest = newest + 1
        real = torch.cat([real, torch.ones_like(real[:, :1])], 1)
        hidden = decoder.run(tokens[:, None], newest, grow, longest)
    return rows.generation()


def cached_loop(
    model: Any, prompt: Sequence[int], max_new_tokens: int, **keywords: Any
) -> Generation:
    """One prompt with a growing cache: a step reads one token. ``padded_loop`` with one row."""
    return padded_loop(model, [prompt], max_new_tokens, **keywords)


@torch.no_grad()
def static_loop(
    model: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    **sampling: Any,
) -> Generation:
    """Many prompts in slots of a static cache, each from column 0; nothing is padded or copied.

    Args:
        model: see ``generate``.
        prompts: lists of token ids.
        max_new_tokens: limit.
        sampling: seeds, temperature, top_k, top_p, eos_ids: see ``generate``.

    """
    decoder = Decoder(model)
    device = decoder.device
    rows = _Rows(prompts, max_new_tokens, device, **sampling)
    lengths = torch.tensor([len(prompt) for prompt in rows.prompts], device=device)
    widest = int(lengths.max())
    cache = decoder.make_cache(len(rows.prompts), widest + max_new_tokens)
    padded = [prompt + [0] * (widest - len(prompt)) for prompt in rows.prompts]
    ids = torch.tensor(padded, device=device)
    slots = torch.arange(len(padded), device=device)
    if widest > 1:
        decoder.prefill(ids[:, :-1], cache, slots, slots)
    tokens = ids.gather(1, lengths[:, None] - 1)[:, 0]
    positions = lengths - 1
    while rows.going:
        tokens = rows.draw(decoder.step(tokens, positions, cache))
        positions = positions + 1
    return rows.generation()


def masked_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float
) -> Tensor:
    """Attention of several tokens a row under a mask.

    Args:
        query: (B, T, Hq, D).
        keys: (B, Hkv, S, D).
        values: (B, Hkv, S, D).
        mask: (B, 1, T, S) bool.
        scale: multiplies q·k.

    Returns:
        (B, T, Hq, D).

    """
    repeats = query.shape[2] // keys.shape[1]
    wide_keys, wide_values = (t.repeat_interleave(repeats, 1) for t in (keys, values))
    mixed = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(1, 2), wide_keys, wide_values, attn_mask=mask, scale=scale
    )
    return mixed.transpose(1, 2)
