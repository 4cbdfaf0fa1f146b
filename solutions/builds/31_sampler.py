"""A sampler with a cache, from an empty file: the solution of build 31."""

import torch
import torch.nn.functional as F


def run(model, ids, positions, seen, cache):
    """Run the newest tokens; logits (B, V) of the last one, and the cache with theirs.

    ids and positions are (B, T); seen (B, T, S) says which of the S places so far a token sees.
    """
    x, kept = model.begin(ids, positions), []
    for block, old in zip(model.blocks, cache, strict=True):
        query, key, value = block.heads_of(x)
        if old is not None:
            key, value = torch.cat([old[0], key], 2), torch.cat([old[1], value], 2)
        kept.append((key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None])
        x = block.finish(x, mixed)
    return model.end(x)[:, -1], kept


def left_padded(prompts):
    """Ids (B, T) with the padding on the left, and which places are real."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    return ids, torch.arange(width) >= width - lengths[:, None]


@torch.no_grad()
def generate(model, prompts, draws, *, eos_id, temperature):
    """Sample an answer to each prompt; a list of lists of tokens, the EOS included."""
    ids, real = left_padded(prompts)
    positions = (real.long().cumsum(1) - 1).clamp(min=0)
    width = ids.shape[1]
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    # A place of padding sees itself, so that no row of the softmax is empty.
    seen = (causal & real[:, None]) | torch.eye(width, dtype=torch.bool)
    answers, running = [[] for _ in prompts], [True] * len(prompts)
    cache = [None] * len(model.blocks)
    for place in range(draws.shape[1]):
        logits, cache = run(model, ids, positions, seen, cache)
        probabilities = (logits / temperature).softmax(-1)
        above = probabilities.cumsum(-1) > draws[:, place, None]
        tokens = above.int().argmax(-1)
        for row, token in enumerate(tokens.tolist()):
            if running[row]:
                answers[row].append(token)
                running[row] = token != eos_id
        if not any(running):
            break
        ids, positions = tokens[:, None], positions[:, -1:] + 1
        real = torch.cat([real, torch.ones(len(prompts), 1, dtype=torch.bool)], 1)
        seen = real[:, None]
    return answers
