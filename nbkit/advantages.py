"""Returns, generalised advantage estimation, whitening, and advantages within groups.

Nothing here is a loss: results are data for one. The losses cut the gradient through them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from nbkit._groups import group_advantages
from nbkit._inputs import bool_mask, check_floating, check_number, check_same_shape
from nbkit._scan import reverse_scan
from nbkit._whitening import batch_moments, merge_moments, whiten

# Numbers that are worked on together: what a CPU's cache holds, what fills a GPU.
BLOCK_ELEMENTS = {"cpu": 2**18, "other": 2**24}

__all__ = [
    "batch_moments",
    "discounted_returns",
    "gae",
    "group_advantages",
    "merge_moments",
    "token_gae",
    "whiten",
]


def discounted_returns(rewards: Tensor, gamma: float, *, mask: Tensor | None = None) -> Tensor:
    """Reward-to-go: G[t] = r[t] + gamma * G[t+1] (Sutton and Barto, 2nd edition, eq. 3.9).

    Args:
        rewards: (..., T).
        gamma: the discount, 0 to 1.
        mask: (..., T). A step that does not count is skipped: its reward is dropped, its result is
            0, and it neither discounts the return nor resets it.

    Returns:
        (..., T).

    Raises:
        ValueError: `rewards` has no time axis, `mask` does not fit, or `gamma` is out of range.
    """
    check_floating("rewards", rewards)
    if rewards.ndim == 0 or rewards.shape[-1] == 0:
        raise ValueError(f"rewards must be (..., T) with T > 0; got shape {tuple(rewards.shape)}")
    check_number("gamma", gamma, 0.0, 1.0)
    counted = bool_mask(mask, rewards, like_name="rewards")
    terms = torch.where(counted, rewards, 0.0)
    decays = torch.full_like(terms, gamma).masked_fill(~counted, 1.0)
    return torch.where(counted, reverse_scan(terms, decays, -1), 0.0)


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    *,
    gamma: float,
    lam: float,
    valid: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation for environments (arXiv:1506.02438, eq. 16).

    Two flags, because an episode ends in two ways. `terminated` stops the bootstrap: behind a
    terminal state there is no value. `done`, terminated or truncated, stops the trace: the next row
    belongs to another episode. At a truncation the value of the true last observation counts.

    Args:
        rewards: (T,) or (T,N), time first.
        values: V of the observation that was acted on.
        next_values: V of the observation that the step led to: at a truncation the final one, not
            the one after the reset. Not read where `terminated`.
        terminated: bool or 0/1.
        done: terminated or truncated.
        gamma: the discount, 0 to 1.
        lam: the trace parameter, 0 to 1.
        valid: False on the dummy rows that an environment with next-step autoreset returns; they
            get 0 and are skipped.

    Returns:
        advantages and returns (advantages + values), each of the shape of `rewards`.

    Raises:
        ValueError: shapes that do not fit, parameters out of range, or a step that is terminated
            but not done (then `done` is probably the truncation flag alone).
    """
    check_floating("rewards", rewards)
    if rewards.ndim not in (1, 2) or rewards.shape[0] == 0:
        raise ValueError(f"rewards must be (T,) or (T,N), T > 0; got shape {tuple(rewards.shape)}")
    check_same_shape("values", values, "rewards", rewards)
    check_same_shape("next_values", next_values, "rewards", rewards)
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    ends = bool_mask(terminated, rewards, name="terminated", like_name="rewards")
    stops = bool_mask(done, rewards, name="done", like_name="rewards")
    counted = None if valid is None else bool_mask(valid, rewards, "valid", "rewards")
    alive_at_the_end = ends > stops if counted is None else (ends > stops) & counted
    if bool(alive_at_the_end.view(torch.uint8).max()):
        raise ValueError(
            "done must be True wherever terminated is: it is terminated or truncated "
            f"(shape {tuple(stops.shape)})"
        )
    blocks: list[Tensor] = []
    for rows in _blocks_from_the_end(rewards):
        bootstrap = torch.where(ends[rows], 0.0, next_values[rows])
        deltas = torch.add(rewards[rows] - values[rows], bootstrap, alpha=gamma)
        # gamma * lam, 0 where the episode stops. From bytes: from bool it is several times slower.
        stopped = stops[rows].view(torch.uint8).to(deltas.dtype)
        decays = torch.rsub(stopped, gamma * lam, alpha=gamma * lam)
        if counted is not None:
            deltas = torch.where(counted[rows], deltas, 0.0)
            decays = torch.where(counted[rows], decays, 1.0)
        behind = blocks[-1][0] if blocks else None
        blocks.append(reverse_scan(deltas, decays, 0, behind))
    advantages = torch.cat(blocks[::-1])
    returns = advantages + values
    if counted is None:
        return advantages, returns
    return torch.where(counted, advantages, 0.0), torch.where(counted, returns, 0.0)


def _blocks_from_the_end(x: Tensor) -> Iterator[slice]:
    """Slices of steps, the last first."""
    elements = BLOCK_ELEMENTS.get(x.device.type, BLOCK_ELEMENTS["other"])
    size = max(1, elements * x.shape[0] // max(1, x.numel()))
    for start in reversed(range(0, x.shape[0], size)):
        yield slice(start, start + size)


def token_gae(
    rewards: Tensor, values: Tensor, mask: Tensor | None, *, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation along the tokens of responses; one row is one episode.

    Equal to deleting the tokens that do not count (a tool's output between two turns, padding) and
    running GAE on the rest: the next value and the trace are carried across them.

    Args:
        rewards: (B,T); what stands on a token that does not count is dropped.
        values: (B,T).
        mask: (B,T); None counts every token.
        gamma: the discount, 0 to 1.
        lam: the trace parameter, 0 to 1.

    Returns:
        advantages and returns (advantages + values), each (B,T), 0 where the mask is 0.

    Raises:
        ValueError: shapes that do not fit or parameters out of range.
    """
    check_floating("rewards", rewards, ndim=2)
    check_same_shape("values", values, "rewards", rewards)
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    counted = bool_mask(mask, rewards, like_name="rewards")
    kept_values = torch.where(counted, values, 0.0)
    deltas = torch.where(
        counted, rewards + gamma * _next_counted(kept_values, counted) - kept_values, 0.0
    )
    decays = torch.full_like(deltas, gamma * lam).masked_fill(~counted, 1.0)
    if rewards.shape[1] == 0:
        return deltas, deltas.clone()
    advantages = torch.where(counted, reverse_scan(deltas, decays, 1), 0.0)
    return advantages, torch.where(counted, advantages + kept_values, 0.0)


def _next_counted(values: Tensor, counted: Tensor) -> Tensor:
    """The value at the next token that counts, 0 behind the last one; (B,T)."""
    steps = values.shape[1]
    places = torch.where(counted, torch.arange(steps, device=values.device), steps)
    here_or_later = places.flip(1).cummin(1).values.flip(1)
    later = torch.nn.functional.pad(here_or_later[:, 1:], (0, 1), value=steps)
    return torch.nn.functional.pad(values, (0, 1)).gather(1, later)
