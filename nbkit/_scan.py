"""The one recursion behind returns and advantages (`nbkit.advantages`), fast on each device."""

import math

import numpy as np
import torch
from torch import Tensor


def reverse_scan(terms: Tensor, decays: Tensor, dim: int, behind: Tensor | None = None) -> Tensor:
    """y[t] = terms[t] + decays[t] * y[t+1] along `dim`, with `behind` (or 0) after the end.

    Every return and advantage of the book is this recursion: a step that is skipped has term 0 and
    decay 1, a step after which nothing counts has decay 0.

    Args:
        terms: any shape with at least one step.
        decays: the same shape and dtype.
        dim: the dimension of the steps.
        behind: the shape without `dim`.

    Returns:
        The shape of `terms`.
    """
    terms, decays = terms.movedim(dim, 0), decays.movedim(dim, 0)
    if behind is None:
        behind = torch.zeros_like(terms[0])
    tracked = torch.is_grad_enabled() and any(x.requires_grad for x in (terms, decays, behind))
    if terms.device.type == "cpu" and terms.dtype in (torch.float32, torch.float64) and not tracked:
        scanned = _row_by_row(terms, decays, behind)
    else:
        scanned = _side_by_side(terms, decays, behind)
    return scanned.movedim(0, dim)


def _row_by_row(terms: Tensor, decays: Tensor, behind: Tensor) -> Tensor:
    """The recursion as it stands, in numpy: a row stays in the cache and a call costs little."""
    steps = terms.shape[0]
    rows, factors = (x.detach().reshape(steps, -1).numpy() for x in (terms, decays))
    carry = behind.detach().reshape(-1).numpy()
    out, product = np.empty_like(rows, order="C"), np.empty_like(carry)
    for t in range(steps - 1, -1, -1):
        np.multiply(factors[t], carry, out=product)
        carry = out[t]
        np.add(rows[t], product, out=carry)
    return torch.from_numpy(out).reshape(terms.shape)


def _side_by_side(terms: Tensor, decays: Tensor, behind: Tensor) -> Tensor:
    """The same in about 3 sqrt(T) operations instead of T: for a GPU, and for autograd.

    The steps are cut into about sqrt(T) stretches that are scanned side by side, as if nothing came
    behind them; then the true values at their ends are handed from stretch to stretch.
    """
    steps = terms.shape[0]
    length = max(1, math.isqrt(steps))
    missing = -steps % length
    if missing:
        padding = terms.new_zeros((missing, *terms.shape[1:]))
        terms, decays = torch.cat([terms, padding]), torch.cat([decays, padding + 1])
    stretches = (terms.unflatten(0, (-1, length)), decays.unflatten(0, (-1, length)))

    values: list[Tensor] = []  # from each step to the end of its stretch,
    reaches: list[Tensor] = []  # and how much of what comes behind it gets there
    for term, decay in zip(*(x.unbind(1)[::-1] for x in stretches), strict=True):
        values.append(torch.addcmul(term, decay, values[-1]) if values else term)
        reaches.append(decay * reaches[-1] if reaches else decay)

    entering = [behind]
    ends = (values[-1].unbind(0)[:0:-1], reaches[-1].unbind(0)[:0:-1])
    for value, reach in zip(*ends, strict=True):
        entering.append(torch.addcmul(value, reach, entering[-1]))
    arriving = torch.stack(entering[::-1])
    parts = zip(values[::-1], reaches[::-1], strict=True)
    whole = [torch.addcmul(value, reach, arriving) for value, reach in parts]
    return torch.stack(whole, 1).flatten(0, 1)[:steps]
