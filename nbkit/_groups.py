"""Advantages of completions against the others of their prompt (`nbkit.advantages`)."""

import torch
from torch import Tensor

from nbkit._inputs import bool_mask, check_choice, check_floating, check_integers, check_number
from nbkit._numerics import Spread, spread
from nbkit._whitening import Moments, over_std, spread_about


def group_advantages(
    rewards: Tensor,
    group_size: int | None = None,
    *,
    group_ids: Tensor | None = None,
    baseline: str = "mean",
    scale: str | None = "std",
    ddof: int = 1,
    eps: float = 1e-4,
    singleton: str = "zero",
    valid: Tensor | None = None,
    moments: Moments | None = None,
) -> Tensor:
    """Advantages of completions against the others of their prompt.

    baseline "mean" with scale "std" is GRPO (arXiv:2402.03300, section 4.1.2); scale None is
    Dr. GRPO (arXiv:2503.20783); "leave-one-out" with scale None is RLOO (arXiv:2402.14740).

    Args:
        rewards: (B,), one a completion.
        group_size: completions a prompt, standing together.
        group_ids: (B,) integers in place of `group_size`, in any order and of any group sizes.
        baseline: "mean" of the group, or the "leave-one-out" mean of the others.
        scale: "std" of the group (with "leave-one-out" that of the others; where it is 0 the
            difference is not divided), "batch" for the std of all rewards, or None.
        ddof: the variance divides by n - ddof.
        eps: added to the standard deviation.
        singleton: a completion without another scorable one in its group gets "zero", or with
            "keep" its raw reward (the loops of verl and SkyRL).
        valid: (B,); False drops a reward that could not be scored, whatever stands there.
        moments: (n, mean, population variance) of the rewards of all ranks, for scale "batch".

    Returns:
        (B,), 0 where not valid. Equal rewards give exactly 0, and so no policy gradient; a KL term
        beside it stays.

    Raises:
        ValueError: shapes that do not fit, unknown choices, not exactly one of `group_size` and
            `group_ids`, or a valid reward that is not finite.
    """
    check_floating("rewards", rewards, ndim=1)
    check_choice("baseline", baseline, ("mean", "leave-one-out"))
    check_choice("scale", scale, ("std", "batch", None))
    check_choice("singleton", singleton, ("zero", "keep"))
    check_number("ddof", ddof, low=0)
    check_number("eps", eps, low=0)
    counted = bool_mask(valid, rewards, name="valid", like_name="rewards")
    if not bool((rewards.isfinite() | ~counted).all()):
        raise ValueError(
            f"rewards holds NaN or inf (shape {tuple(rewards.shape)}); mark what could not be "
            "scored with valid=False"
        )
    if moments is not None and scale != "batch":
        raise ValueError(f"moments serve scale='batch' only; got scale={scale!r}")
    members, present = group_rows(rewards, group_size, group_ids)
    if rewards.numel() == 0:
        return rewards.clone()

    scorable = present & counted[members]
    x = torch.where(scorable, rewards[members], 0.0)
    batch = None
    if scale == "batch":
        batch = (
            spread(rewards, counted, ddof)
            if moments is None
            else spread_about(rewards, counted, moments, ddof)
        )
    if baseline == "mean":
        advantages = _against_the_mean(x, scorable, ddof, eps, scale, batch)
    else:
        advantages = _against_the_others(x, scorable, ddof, eps, scale, batch)
    alone = scorable.sum(1, keepdim=True) == 1
    advantages = torch.where(alone, x if singleton == "keep" else 0.0, advantages)
    scattered = torch.zeros_like(rewards)
    scattered[members[scorable]] = advantages[scorable]
    return scattered


def _against_the_mean(
    x: Tensor, scorable: Tensor, ddof: int, eps: float, scale: str | None, batch: Spread | None
) -> Tensor:
    """(P,G) rewards of P prompts minus their mean, scaled."""
    group = spread(x, scorable, ddof)
    if batch is not None:
        deviation = group.deviation * (group.size / batch.size)
        return over_std(deviation, batch.std, batch.size, eps, "std")
    if scale == "std":
        return over_std(group.deviation, group.std, group.size, eps, "std")
    return group.plain_deviation()


def _against_the_others(
    x: Tensor, scorable: Tensor, ddof: int, eps: float, scale: str | None, batch: Spread | None
) -> Tensor:
    """(P,G) rewards minus the mean of the others in their row, scaled; needs P*G*G numbers."""
    size = x.shape[1]
    itself = torch.eye(size, dtype=torch.bool, device=x.device)
    others = scorable[:, None, :] & ~itself
    stats = spread(x[:, None, :].expand(-1, size, -1), others, ddof)
    quarter = x * 0.25 - stats.mean.squeeze(-1) * 0.25
    if batch is not None:
        return over_std(quarter / batch.size, batch.std, batch.size, eps, "std")
    if scale == "std":
        std, unit = stats.std.squeeze(-1), stats.size.squeeze(-1)
        return torch.where(std > 0, over_std(quarter / unit, std, unit, eps, "std"), 4 * quarter)
    return 4 * quarter


def group_rows(
    rewards: Tensor, group_size: int | None, group_ids: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Which completions belong together.

    Returns:
        members: (P,G) int64 indices into the rewards, a row a group, short groups padded with 0.
        present: (P,G) bool, False on that padding.

    Raises:
        ValueError: not exactly one of `group_size` and `group_ids`, or one that does not fit.
    """
    if (group_size is None) == (group_ids is None):
        raise ValueError("give exactly one of group_size and group_ids")
    total = rewards.shape[0]
    if group_size is not None:
        if group_size < 1 or total % group_size:
            raise ValueError(
                f"group_size must divide the number of rewards; got group_size={group_size} for "
                f"rewards of shape {tuple(rewards.shape)}"
            )
        members = torch.arange(total, device=rewards.device).reshape(-1, group_size)
        return members, torch.ones_like(members, dtype=torch.bool)
    assert group_ids is not None
    check_integers("group_ids", group_ids, ndim=1)
    if group_ids.shape != rewards.shape:
        raise ValueError(
            f"group_ids must have the shape of rewards, {tuple(rewards.shape)}; "
            f"got {tuple(group_ids.shape)}"
        )
    _, group, counts = group_ids.unique(return_inverse=True, return_counts=True)
    order = group.argsort(stable=True)
    starts = counts.cumsum(0) - counts
    column = torch.arange(total, device=rewards.device) - starts[group[order]]
    width = int(counts.max()) if total else 1
    members = order.new_zeros((counts.shape[0], width))
    present = torch.zeros_like(members, dtype=torch.bool)
    members[group[order], column] = order
    present[group[order], column] = True
    return members, present
