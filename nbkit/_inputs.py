"""Input checks shared by the mathematics: one clear sentence that names the argument."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}")


def check_floating(name: str, x: Tensor, ndim: int | None = None) -> None:
    """Raise ValueError unless `x` is a floating-point tensor (of `ndim` dimensions)."""
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a torch tensor; got {type(x).__name__}")
    if not x.is_floating_point():
        raise ValueError(f"{name} must be floating-point; got {x.dtype}, shape {tuple(x.shape)}")
    if ndim is not None and x.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s); got shape {tuple(x.shape)}")


def check_integers(name: str, x: Tensor, ndim: int | None = None) -> None:
    """Raise ValueError unless `x` is an integer tensor (of `ndim` dimensions)."""
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a torch tensor; got {type(x).__name__}")
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise ValueError(f"{name} must hold integers; got {x.dtype}, shape {tuple(x.shape)}")
    if ndim is not None and x.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s); got shape {tuple(x.shape)}")


def check_same_shape(name: str, x: Tensor, like_name: str, like: Tensor) -> None:
    """Raise ValueError unless `x` is a floating-point tensor of the shape of `like`."""
    check_floating(name, x)
    if x.shape != like.shape:
        raise ValueError(
            f"{name} must have the shape of {like_name}, {tuple(like.shape)}; got {tuple(x.shape)}"
        )


def check_number(
    name: str,
    value: float,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
) -> None:
    """Raise ValueError unless low <= value <= high (`open_low`: low < value); NaN never fits."""
    fits = (low < value if open_low else low <= value) and value <= high
    if not fits:
        bracket = "(" if open_low else "["
        raise ValueError(f"{name} must lie in {bracket}{low}, {high}]; got {value}")


def bool_mask(
    mask: Tensor | None, like: Tensor, name: str = "mask", like_name: str = "x"
) -> Tensor:
    """The mask as a bool tensor of the shape of `like`; None counts everything.

    Raises ValueError for another shape and for values other than 0 and 1.
    """
    if mask is None:
        return torch.ones_like(like, dtype=torch.bool)
    if not isinstance(mask, Tensor):
        raise ValueError(f"{name} must be a torch tensor; got {type(mask).__name__}")
    if mask.shape != like.shape:
        raise ValueError(
            f"{name} must have the shape of {like_name}, {tuple(like.shape)}; "
            f"got {tuple(mask.shape)}"
        )
    return as_bool(mask, name)


def as_bool(flags: Tensor, name: str) -> Tensor:
    """Bool or 0/1 flags as bool; ValueError for any other value."""
    if flags.dtype == torch.bool:
        return flags
    as_flags = flags == 1
    if not bool((as_flags | (flags == 0)).all()):
        raise ValueError(f"{name} must hold only 0 and 1 (shape {tuple(flags.shape)})")
    return as_flags


def expand_advantages(advantages: Tensor, logp: Tensor, mask: Tensor) -> Tensor:
    """Advantages as constants of the shape of `logp`, 0 where the mask is 0.

    Accepts the shape of `logp`, or (B,1) beside (B,T). (B,) beside (B,T) raises ValueError: it
    would broadcast along the time axis and give every token the advantage of another sequence.
    """
    check_floating("advantages", advantages)
    one_a_row = logp.ndim == 2 and advantages.shape == (logp.shape[0], 1)
    if advantages.shape != logp.shape and not one_a_row:
        raise ValueError(
            f"advantages must have the shape of logp, {tuple(logp.shape)}, or one column a row "
            f"(B,1); got {tuple(advantages.shape)}. Write advantages[:, None] for one a sequence"
        )
    return torch.where(mask, advantages.detach().expand_as(logp), 0.0)
