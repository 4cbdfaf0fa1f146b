"""Nested lists, tuples and dictionaries that hold tensors: map over them, compare them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def map_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """A copy of the nested value in which each tensor is changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(change, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map_tensors(change, item) for item in value)
    return value


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors of a nested value."""
    found: list[Tensor] = []
    map_tensors(found.append, value)
    return found


def as_lists(value: Any) -> Any:
    """A nested value in which tuples are lists: the order and what is in it stay."""
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_lists(item) for item in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two nested values are equal, nan included; never raises."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and same_tensor(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    try:
        return bool(one == other) or (one != one and other != other)
    except Exception:  # an object whose == raises, or has no truth value, is not the same
        return False


def same_tensor(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors agree in shape, dtype, place, need of a gradient and every entry."""
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    if one.requires_grad != other.requires_grad:
        return False
    if torch.equal(one, other):
        return True
    return (
        one.is_floating_point()
        and torch.equal(one.isnan(), other.isnan())
        and torch.equal(one.nan_to_num(nan=0.0), other.nan_to_num(nan=0.0))
    )
