"""Short spellings for float64 tensors and comparisons, shared by the tests of the mathematics."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def f64(values: Any, **options: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, **options)


def ints(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def same(result: Tensor, expected: Any, atol: float = 1e-9) -> None:
    """`result` equals `expected` within `atol`; NaN equals nothing."""
    wanted = torch.as_tensor(expected, dtype=result.dtype)
    torch.testing.assert_close(result.detach(), wanted, atol=atol, rtol=0)


def differs(result: Tensor, wrong: Any, by: float = 1e-3) -> None:
    """`result` is visibly not the fingerprint of a known fault."""
    assert (result.detach() - torch.as_tensor(wrong, dtype=result.dtype)).abs().max() > by


def gradient(function: Callable[..., Tensor], *at: Tensor) -> Tensor:
    """Gradient of the sum of `function` in its first argument."""
    leaf = at[0].detach().clone().requires_grad_()
    (result,) = torch.autograd.grad(function(leaf, *at[1:]).sum(), leaf)
    return result
