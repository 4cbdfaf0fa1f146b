"""Drawing a token: temperature, top-k, top-p, and noise that belongs to a row and not to a batch.

A token is drawn by the Gumbel-max trick: add independent Gumbel noise to the log-probabilities and
take the largest (Maddison, Tarlow and Minka, 2014). The noise comes from a counter, not from a
generator with a state: it is a hash of (seed of the row, position in its answer, token id). So a
row draws the same tokens in any batch, in any slot and in any order, and a GPU kernel computes the
noise of one token without the others.

Temperature divides the logits first; top-k, then top-p, cut what is left, as in transformers.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import check_number

# Signed forms of 0x846CA68B, 0x9E3779B9 and 0x85EBCA6B: torch has no arithmetic on uint32.
_SECOND = 0x846CA68B - 2**32
_GOLDEN = 0x9E3779B9 - 2**32
_OTHER = 0x85EBCA6B - 2**32
BELOW_ONE = 1 - 2**-24


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32 bits in which every input bit moves every output bit.

    The constants are those of Wellons' "lowbias32", found by search for the least bias.
    int32 multiplication wraps, and the masks make the arithmetic shifts logical ones.
    """
    x = x ^ ((x >> 16) & 0xFFFF)
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= _SECOND
    x ^= (x >> 16) & 0xFFFF
    return x


def _low_and_high(seeds: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of 64-bit seeds as int32, bit for bit."""
    halves = seeds.to(torch.int64).contiguous().view(torch.int32).view(*seeds.shape, 2)
    return halves[..., 0], halves[..., 1]


def stream_keys(seeds: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Two 32-bit keys for each (seed, position); shapes that broadcast, int32 out."""
    low, high = _low_and_high(seeds)
    step = positions.to(torch.int32)
    first = _mix(_mix(_mix(low ^ _GOLDEN) ^ high) ^ step)
    second = _mix(_mix(_mix(high ^ _OTHER) ^ low) ^ step)
    return first, second


def gumbel_noise(seeds: Tensor, positions: Tensor, vocabulary: int) -> Tensor:
    """Standard Gumbel noise for every token of the vocabulary.

    Args:
        seeds: (B,) int64, one a row.
        positions: (B,) or (B, K) index of the token within its answer, 0 for the first.
        vocabulary: number of tokens V.

    Returns:
        (B, V) or (B, K, V) float32, the same for the same (seed, position, token) always.

    """
    first, second = stream_keys(seeds if positions.ndim == 1 else seeds[:, None], positions)
    ids = torch.arange(vocabulary, dtype=torch.int32, device=seeds.device)
    bits = _mix(_mix(ids ^ first[..., None]) ^ second[..., None]) & 0x7FFFFFFF
    # Small uniforms keep their full precision: they make the largest noise, and that wins.
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-31).clamp_(max=BELOW_ONE)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def row_seeds(
    seeds: int | Sequence[int] | Tensor | torch.Generator, rows: int, device: torch.device | str
) -> Tensor:
    """One 64-bit seed a row.

    Args:
        seeds: an int (seeds are derived from it and the number of the row), one int a row, or a
            generator to draw them from.
        rows: number of rows R.
        device: where the result goes.

    Returns:
        (R,) int64.

    Raises:
        ValueError: the number of seeds is not the number of rows.

    """
    if isinstance(seeds, torch.Generator):
        drawn = torch.randint(
            -(2**62), 2**62, (rows,), generator=seeds, device=seeds.device, dtype=torch.int64
        )
        return drawn.to(device)
    if isinstance(seeds, int):
        base = torch.tensor([_signed64(seeds)], dtype=torch.int64)
        first, second = stream_keys(base, torch.arange(rows))
        return ((first.long() << 32) | (second.long() & 0xFFFFFFFF)).to(device)
    listed = seeds.tolist() if isinstance(seeds, Tensor) else list(seeds)
    if len(listed) != rows:
        raise ValueError(
            f"seeds: {len(listed)} given for {rows} rows; give one seed a row "
            "(prompts × group_size), a single int or a torch.Generator"
        )
    return torch.tensor([_signed64(int(seed)) for seed in listed], dtype=torch.int64).to(device)


def _signed64(seed: int) -> int:
    return (seed + 2**63) % 2**64 - 2**63


def filter_threshold(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor | None:
    """The smallest logit that top-k and then top-p leave in; None without a filter.

    Top-p keeps the most probable tokens until their sum reaches p: a token stays while the sum of
    those above it is below p. Tokens that tie with the last one stay too.

    Args:
        logits: (..., V), not yet divided by the temperature; nor is the threshold.
        temperature: shapes the probabilities that top-p adds up.
        top_k: number of tokens, or None.
        top_p: share of the probability in (0, 1], or None.

    Returns:
        (..., 1).

    """
    vocabulary = logits.shape[-1]
    if top_k is not None and top_k >= vocabulary:
        top_k = None
    if top_p is not None and top_p >= 1:
        top_p = None
    if top_k is None and top_p is None:
        return None
    if top_k is None:
        ordered = logits.sort(-1, descending=True).values
    else:
        ordered = logits.topk(top_k, -1).values
    if top_p is None:
        return ordered[..., -1:]
    probabilities = (ordered.float() / temperature).softmax(-1)
    above = probabilities.cumsum(-1) - probabilities
    last = ((above < top_p).sum(-1, keepdim=True) - 1).clamp(min=0)
    return ordered.gather(-1, last)


def _scaled(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """Tempered logits in float32, -inf where they are cut."""
    threshold = filter_threshold(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    scaled = logits.float() if temperature == 1 else logits.float() / temperature
    return scaled if threshold is None else scaled.masked_fill(logits < threshold, -torch.inf)


def filtered_logprobs(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Log-probabilities of the distribution that is really sampled from, -inf where it is cut.

    Args:
        logits: (..., V).
        temperature: positive.
        top_k: see ``filter_threshold``.
        top_p: see ``filter_threshold``.

    """
    check_sampling(temperature, top_k, top_p)
    check_number("temperature", temperature, 0.0, open_low=True)
    return _scaled(logits, temperature, top_k, top_p).log_softmax(-1)


def draw(
    logits: Tensor,
    noise: Tensor | None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> tuple[Tensor, Tensor]:
    """One token a row and its log-probability.

    Args:
        logits: (B, V).
        noise: (B, V) of ``gumbel_noise``; unused at temperature 0.
        temperature: 0 is greedy. Then the distribution is a point, and the log-probability is 0.
        top_k: see ``filter_threshold``.
        top_p: see ``filter_threshold``.

    Returns:
        tokens (B,) int64 and log-probabilities (B,) float32.

    """
    if temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
    assert noise is not None
    scaled = _scaled(logits, temperature, top_k, top_p)
    tokens = (scaled + noise).argmax(-1)
    chosen = scaled.gather(-1, tokens[:, None])[:, 0]
    return tokens, chosen - scaled.logsumexp(-1)


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raise ValueError for values that describe no distribution."""
    check_number("temperature", temperature, 0.0)
    if temperature == float("inf"):
        raise ValueError("temperature must be finite; got inf")
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        raise ValueError(f"top_k must be an integer of at least 1 or None; got {top_k}")
    if top_p is not None:
        check_number("top_p", top_p, 0.0, 1.0, open_low=True)
