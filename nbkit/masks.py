"""Which tokens count, and how a loss per token becomes one number.

Shapes: B sequences, T tokens. A mask is bool or 0/1 and 1 means "counts". What stands under a 0,
be it NaN, is replaced before any arithmetic, so it reaches neither the value nor the gradient.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import (
    as_bool,
    bool_mask,
    check_choice,
    check_floating,
    check_integers,
    check_number,
)
from nbkit._numerics import divided_sum

AGGREGATION_MODES = (
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
)


def masked_mean(x: Tensor, mask: Tensor | None, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Mean of the elements that count; 0 where none does.

    Args:
        x: any shape, floating-point.
        mask: the shape of `x`; None counts every element.
        dim: the dimension(s) to reduce; None reduces all of them.

    Returns:
        `x` without `dim`. The divisor is max(number counted, 1), so the mean of a non-empty mask
        is exact, unlike with the common `sum / (count + 1e-8)`.

    Raises:
        ValueError: `x` is not floating-point, `mask` has another shape or other values than 0/1,
            or `x` has no dimension `dim`.
    """
    check_floating("x", x)
    counted = bool_mask(mask, x)
    dims = tuple(range(x.ndim)) if dim is None else (dim if isinstance(dim, tuple) else (dim,))
    if any(not -x.ndim <= d < x.ndim for d in dims):
        raise ValueError(f"dim must name dimensions of x, {tuple(x.shape)}; got {dim}")
    if x.ndim == 0:
        return torch.where(counted, x, 0.0)
    count = counted.sum(dims, keepdim=True).clamp(min=1)
    return divided_sum(torch.where(counted, x, 0.0), count, dims)


def completion_mask(
    ids: Tensor, eos_ids: int | Sequence[int] | Tensor, *, attention: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Which response tokens the policy chose: everything up to and including the first EOS.

    The first EOS by position counts, even where the same id also serves as padding: a mask made by
    comparing with the pad id would lose it, and the model would never learn to stop.

    Args:
        ids: (B,T) response tokens of one turn. Masks of dialogues come from their environment.
        eos_ids: one id, or several any of which ends a response.
        attention: (B,T), 1 for real tokens; tells padding from content where no EOS does.

    Returns:
        mask: (B,T) bool.
        truncated: (B,) bool, rows in which no real token is an EOS (the length limit came first).

    Raises:
        ValueError: `ids` is not an integer (B,T) tensor, `eos_ids` are no integers, or `attention`
            does not fit.
    """
    check_integers("ids", ids, ndim=2)
    real = bool_mask(attention, ids, name="attention", like_name="ids")
    stops = torch.as_tensor(eos_ids, device=ids.device)
    if stops.numel():
        check_integers("eos_ids", stops)
    # Compared as int64: an id that the dtype of `ids` cannot hold would wrap around to another.
    ends = torch.isin(ids.long(), stops.long()) & real
    ends_before = ends.long().cumsum(1) - ends.long()
    return real & (ends_before == 0), ~ends.any(1)


def position_ids(attention: Tensor) -> Tensor:
    """Positions that count real tokens 0, 1, 2, ... whatever the side of the padding.

    Args:
        attention: (B,T), 1 for real tokens.

    Returns:
        (B,T) int64; padding gets 0, where no real token looks.

    Raises:
        ValueError: `attention` is not (B,T) or holds other values than 0/1.
    """
    if attention.ndim != 2:
        raise ValueError(f"attention must be (B,T); got shape {tuple(attention.shape)}")
    real = as_bool(attention, "attention")
    return torch.where(real, real.long().cumsum(1) - 1, 0)


def last_token_index(mask: Tensor) -> Tensor:
    """Index of the last token that counts, found by position and never by token id.

    Args:
        mask: (B,T).

    Returns:
        (B,) int64; -1 for a row without a token.

    Raises:
        ValueError: `mask` is not (B,T) or holds other values than 0/1.
    """
    if mask.ndim != 2:
        raise ValueError(f"mask must be (B,T); got shape {tuple(mask.shape)}")
    counted = as_bool(mask, "mask")
    if mask.shape[1] == 0:
        return torch.full((mask.shape[0],), -1, device=mask.device)
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(counted, places, -1).amax(1)


def place_sequence_reward(
    rewards: Tensor, mask: Tensor, *, at: str = "last", empty_rows: str = "skip"
) -> Tensor:
    """One reward a sequence, put on one token of it.

    Args:
        rewards: (B,).
        mask: (B,T) response mask.
        at: "last" puts it on the last token that counts (verl, OpenRLHF, NeMo RL); "after" on the
            position behind it where there is one (TRL's PPO, an inheritance).
        empty_rows: "skip" pays a row without a token nothing (NeMo RL); "last-column" pays it in
            the last column (OpenRLHF).

    Returns:
        (B,T), 0 everywhere else.

    Raises:
        ValueError: shapes that do not fit, or an unknown `at` or `empty_rows`.
    """
    check_floating("rewards", rewards, ndim=1)
    check_choice("at", at, ("last", "after"))
    check_choice("empty_rows", empty_rows, ("skip", "last-column"))
    last = last_token_index(mask)
    if rewards.shape != last.shape:
        raise ValueError(
            f"rewards must be (B,) with B = {mask.shape[0]}, the rows of mask; "
            f"got {tuple(rewards.shape)}"
        )
    steps = mask.shape[1]
    if steps == 0:
        return rewards.new_zeros(mask.shape)
    index = last if at == "last" else (last + 1).clamp(max=steps - 1)
    empty = last < 0
    index = torch.where(empty, steps - 1, index)
    paid = rewards if empty_rows == "last-column" else torch.where(empty, 0.0, rewards)
    return rewards.new_zeros(mask.shape).scatter(1, index[:, None], paid[:, None])


def aggregate(
    per_token: Tensor,
    mask: Tensor | None,
    mode: str,
    *,
    max_tokens: int | None = None,
    total_tokens: Tensor | float | None = None,
    total_sequences: Tensor | float | None = None,
    empty_rows: str = "count",
) -> Tensor:
    """Reduce a loss per token to one number, with the denominator in plain sight.

    ========================  ==================================================================
    mode                      value
    ========================  ==================================================================
    token-mean                sum of all tokens / number of tokens (DAPO, arXiv:2503.14476, eq. 8)
    seq-mean-token-mean       mean over sequences of their token means (GRPO, arXiv:2402.03300,
                              eq. 3)
    seq-mean-token-sum        mean over sequences of their token sums (the policy-gradient
                              theorem)
    seq-mean-token-sum-norm   sum of all tokens / (sequences * max_tokens) (Dr. GRPO,
                              arXiv:2503.20783)
    ========================  ==================================================================

    A caller that holds a part of the batch, a micro-batch or a rank, passes the counts of the
    whole: the values and the gradients of the parts then *sum* to those of the one batch. A
    framework that averages gradients over ranks needs the part times the world size; that factor
    is the caller's.

    Args:
        per_token: (B,T).
        mask: (B,T); None counts every token.
        mode: one of `AGGREGATION_MODES`.
        max_tokens: the constant length of "seq-mean-token-sum-norm".
        total_tokens: tokens in the whole batch, for "token-mean"; default those of `mask`.
        total_sequences: sequences in the whole batch, for the other modes; default the rows here,
            counted by `empty_rows`.
        empty_rows: "count" keeps a row without a token in the number of sequences (TRL), "exclude"
            does not (verl).

    Returns:
        A scalar; 0 with zero gradient when nothing counts.

    Raises:
        ValueError: an unknown mode, shapes that do not fit, a missing or useless count.
    """
    check_choice("mode", mode, AGGREGATION_MODES)
    check_choice("empty_rows", empty_rows, ("count", "exclude"))
    check_floating("per_token", per_token, ndim=2)
    counted = bool_mask(mask, per_token, like_name="per_token")
    _check_totals(mode, max_tokens, total_tokens, total_sequences)
    kept = torch.where(counted, per_token, 0.0)
    lengths = counted.sum(1, keepdim=True)

    if mode == "token-mean":
        tokens = lengths.sum() if total_tokens is None else total_tokens
        return divided_sum(kept, at_least_one(tokens), (0, 1))

    rows: Tensor | float = lengths.new_tensor(counted.shape[0])
    if total_sequences is not None:
        rows = total_sequences
    elif empty_rows == "exclude":
        rows = (lengths > 0).sum()
    rows = at_least_one(rows)
    if mode == "seq-mean-token-mean":
        return divided_sum(divided_sum(kept, lengths.clamp(min=1), (1,)), rows, (0,))
    if mode == "seq-mean-token-sum":
        return divided_sum(kept, rows, (0, 1))
    return divided_sum(kept, rows * float(max_tokens or 1), (0, 1))


def at_least_one(count: Tensor | float) -> Tensor | float:
    """The count, or 1 where it is 0, so that an empty batch has loss 0."""
    if isinstance(count, Tensor):
        return torch.where(count == 0, 1, count)
    return count or 1


def _check_totals(
    mode: str,
    max_tokens: int | None,
    total_tokens: Tensor | float | None,
    total_sequences: Tensor | float | None,
) -> None:
    if mode == "seq-mean-token-sum-norm":
        if max_tokens is None:
            raise ValueError("max_tokens is missing: mode 'seq-mean-token-sum-norm' divides by it")
        check_number("max_tokens", max_tokens, low=1)
    for name, total in (("total_tokens", total_tokens), ("total_sequences", total_sequences)):
        if isinstance(total, Tensor) and total.ndim:
            raise ValueError(f"{name} must be one number; got shape {tuple(total.shape)}")
        if total is not None and not isinstance(total, Tensor):
            check_number(name, total, low=0)
    needed, given = ("total_tokens", total_tokens), ("total_sequences", total_sequences)
    if mode != "token-mean":
        needed, given = given, needed
    if given[1] is not None and needed[1] is None:
        raise ValueError(
            f"{needed[0]} is missing: mode {mode!r} divides by it, and {given[0]} alone would "
            "leave the local count in its place"
        )
