"""How values appear in a message: so that they can be pasted back into a cell."""

import math
from typing import Any

import torch
from torch import Tensor

MOST_SHOWN = 120
Index = tuple[int, ...]


def literal(value: Any) -> str:
    """A Python expression for a value; a large tensor is described by its shape instead."""
    if isinstance(value, Tensor):
        if value.numel() > MOST_SHOWN:
            kind = str(value.dtype).removeprefix("torch.")
            return f"a tensor of shape {tuple(value.shape)}, {kind}, from {_ends(value)}"
        return f"torch.tensor({numbers(value.tolist())})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return numbers(value)


def _ends(value: Tensor) -> str:
    flat = value.reshape(-1)
    return f"{numbers(flat[0].item())} … to {numbers(flat[-1].item())}"


def numbers(value: Any) -> str:
    """Nested lists of numbers, floats in six significant digits."""
    if isinstance(value, list):
        return "[" + ", ".join(numbers(item) for item in value) + "]"
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        short = f"{value + 0.0:.6g}"  # + 0.0 turns -0.0 into 0.0
        return short if any(c in short for c in ".en") else short + ".0"
    return repr(value)


def values(value: Any) -> str:
    """Like :func:`literal`, without the call of torch.tensor around it."""
    if isinstance(value, Tensor) and value.numel() <= MOST_SHOWN:
        return numbers(value.tolist())
    return literal(value)


def first_difference(
    expected: Tensor, got: Tensor, rtol: float = 1e-4, atol: float = 1e-5
) -> tuple[Index, Any, Any] | None:
    """Index and both values at the first place where two tensors of one shape part."""
    if expected.shape != got.shape:
        return None
    wrong = ~torch.isclose(got.double(), expected.double(), rtol=rtol, atol=atol)
    if not bool(wrong.any()):
        return None
    index = tuple(int(i) for i in wrong.nonzero()[0])
    return index, expected[index].item(), got[index].item()


def at(name: str, index: Index) -> str:
    """``name[1, 2]``, or the bare name for a tensor without axes."""
    return f"{name}[{', '.join(str(i) for i in index)}]" if index else name


def listed(items: list[str], most: int = 4) -> str:
    """``a, b and c``, shortened after ``most``."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
