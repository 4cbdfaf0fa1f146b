"""Perturbs initial weights by one part in ten million: a rounding of the page's very first step.

The functions of `torch.nn.init` that draw values (`nn.Linear`, `nn.LSTM`, `nn.Embedding` and the
models of transformers all call them) change about half of the drawn values by one part in 10⁷,
up or down. Which, is a hash of the value's bits: no random number is used up, two models built
alike stay alike, a shard equals its part of the whole, and every processor changes the same ones.
Copies are left alone, and so are constants, and types coarser than float32, whose own rounding is
larger. Nothing is imported before the page imports torch.
"""

import functools
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

MODULE = "torch.nn.init"
DRAWING = (
    *("uniform_", "normal_", "trunc_normal_", "orthogonal_", "sparse_"),
    *("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"),
)
SIZE = 1e-7
MULTIPLIER = 1640531527  # 2³² divided by the golden ratio, less 2³²: spreads neighbouring bits
SHIFT = 20
_depth = threading.local()


def start() -> None:
    """Patch `torch.nn.init` when it is imported."""
    if MODULE in sys.modules:
        patch(sys.modules[MODULE])
    else:
        sys.meta_path.insert(0, _Finder())


def patch(init: ModuleType) -> None:
    """Let every function of the module that draws values perturb them."""
    for name in DRAWING:
        setattr(init, name, perturbing(getattr(init, name)))


def perturbing(fill: Callable[..., Any]) -> Callable[..., Any]:
    """The function, perturbing what it filled; a fill inside another one perturbs once."""

    @functools.wraps(fill)
    def filled(*arguments: Any, **named: Any) -> Any:
        _depth.now = getattr(_depth, "now", 0) + 1
        try:
            tensor = fill(*arguments, **named)
        finally:
            _depth.now -= 1
        if _depth.now == 0:
            perturb(tensor)
        return tensor

    return filled


def perturb(tensor: Any) -> None:
    """Change about half of a tensor's values by one part in 10⁷, in place."""
    import torch

    local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor: this rank's part
    integers = {torch.float32: torch.int32, torch.float64: torch.int64}.get(local.dtype)
    if integers is None or local.is_meta:
        return
    with torch.no_grad():
        bits = local.detach().view(integers)
        hashed = (bits * MULTIPLIER) >> SHIFT & 3  # 0, 1, 2 or 3, each as often
        direction = (hashed == 3).to(local.dtype) - (hashed == 0).to(local.dtype)
        local.mul_(1 + SIZE * direction)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch.nn.init` as ever, and patches it after it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                patch(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec
