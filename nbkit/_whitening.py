"""Standardising advantages over a batch, a rank or the whole of all ranks (`nbkit.advantages`)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import bool_mask, check_choice, check_floating, check_number
from nbkit._numerics import Spread, spread

Moments = tuple[Tensor | float, Tensor | float, Tensor | float]

EPS_PLACES = ("std", "var", "clamp-std", "clamp-var")


def batch_moments(x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(n, mean, population variance) of what counts: the `moments` of one rank or micro-batch.

    Args:
        x: any shape.
        mask: the shape of `x`; None counts everything.

    Returns:
        Three scalars; an empty mask gives zeros.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_floating("x", x)
    counted = bool_mask(mask, x)
    if x.numel() == 0:
        return torch.zeros((), dtype=torch.long, device=x.device), x.sum(), x.sum()
    stats = spread(x.reshape(-1), counted.reshape(-1), ddof=0)
    return stats.counts[0], stats.mean[0], stats.plain_std()[0].square()


def merge_moments(parts: Sequence[Moments]) -> Moments:
    """The moments of a whole from those of its parts (Chan, Golub and LeVeque, 1979).

    Args:
        parts: (n, mean, population variance) of each part.

    Returns:
        (n, mean, population variance) of all of them together.

    Raises:
        ValueError: there are no parts.
    """
    if not parts:
        raise ValueError("parts must hold the moments of at least one part; got none")
    total = sum(n for n, _, _ in parts)
    divisor = total if total > 0 else 1
    mean = sum(n * m for n, m, _ in parts) / divisor
    variance = sum(n * (v + (m - mean) * (m - mean)) for n, m, v in parts) / divisor
    return total, mean, variance


def whiten(
    x: Tensor,
    mask: Tensor | None = None,
    *,
    ddof: int = 1,
    eps: float = 1e-8,
    eps_place: str = "std",
    center: bool = True,
    singleton: str = "zero",
    moments: Moments | None = None,
) -> Tensor:
    """Shift and scale to mean 0 and standard deviation 1, over everything that counts.

    Args:
        x: any shape.
        mask: the shape of `x`; None counts everything.
        ddof: the variance divides by n - ddof: 1 (Bessel) or 0 (population).
        eps: what keeps the divisor away from 0.
        eps_place: "std" divides by std + eps (CleanRL, SB3); "var" by sqrt(var + eps) (TRL's PPO,
            verl, SkyRL); "clamp-std" by max(std, eps) (torchrl); "clamp-var" by
            sqrt(max(var, eps)) (OpenRLHF, NeMo RL).
        center: False adds the mean back, so that only the scale changes.
        singleton: a value that is alone becomes "zero", or is left as it is by "keep" (SB3).
        moments: (n, mean, population variance) of a larger whole, such as all ranks, that take the
            place of those of `x`; `ddof` applies to them too. `batch_moments` and `merge_moments`
            make them.

    Returns:
        The shape of `x`, 0 where the mask is 0. Values that are all equal become exactly 0 (with
        center=False: are unchanged).

    Raises:
        ValueError: shapes that do not fit, unknown choices, a negative eps, ddof or variance.
    """
    check_floating("x", x)
    check_choice("eps_place", eps_place, EPS_PLACES)
    check_choice("singleton", singleton, ("zero", "keep"))
    check_number("ddof", ddof, low=0)
    check_number("eps", eps, low=0)
    counted = bool_mask(mask, x)
    if x.numel() == 0:
        return x.clone()
    if moments is None:
        stats = spread(x.reshape(-1), counted.reshape(-1), ddof)
    else:
        stats = spread_about(x.reshape(-1), counted.reshape(-1), moments, ddof)
    scaled = over_std(stats.deviation, stats.std, stats.size, eps, eps_place)
    if not center:
        scaled = scaled + stats.mean
    if singleton == "keep":
        scaled = torch.where(stats.counts == 1, x.reshape(-1), scaled)
    return torch.where(counted, scaled.reshape(x.shape), 0.0)


def spread_about(x: Tensor, counted: Tensor, moments: Moments, ddof: float) -> Spread:
    """The statistics of (n,) values about moments that the caller gives."""
    n, mean, variance = (torch.as_tensor(m, dtype=x.dtype, device=x.device) for m in moments)
    if n.numel() != 1 or mean.numel() != 1 or variance.numel() != 1:
        raise ValueError(f"moments must be three numbers; got shapes {n.shape}, {mean.shape}, ...")
    if not bool((n >= 0) & (variance >= 0)):
        raise ValueError(
            f"moments must be (n, mean, variance) with n, variance >= 0; got {moments}"
        )
    variance = torch.where(n > ddof, variance * n / (n - ddof).clamp(min=1e-6), 0.0)
    # The mean is only known to its rounding: a smaller spread than that is none.
    rounding = 4 * torch.finfo(x.dtype).eps * mean.abs()
    std = torch.where(variance.sqrt() > rounding, variance.sqrt(), 0.0)
    quarter = torch.where(counted, x * 0.25 - mean * 0.25, 0.0)
    one = torch.ones((1,), dtype=x.dtype, device=x.device)
    return Spread(n.reshape(1), mean.reshape(1), 4 * quarter, std.reshape(1), one / 4)


def over_std(deviation: Tensor, std: Tensor, size: Tensor, eps: float, eps_place: str) -> Tensor:
    """deviation / std with eps in its place, in units of 4 * size; 0 where std is 0."""
    unit_eps = eps / 4 / size if eps_place.endswith("std") else eps**0.5 / 4 / size
    safe_std = torch.where(std > 0, std, 1.0)
    if eps_place == "std":
        divisor = safe_std + unit_eps
    elif eps_place == "var":
        divisor = torch.hypot(safe_std, unit_eps.expand_as(safe_std))
    else:
        divisor = torch.maximum(safe_std, unit_eps)
    return torch.where(std > 0, deviation / divisor, 0.0)
