"""Low-rank adapters: what learns when a model is too large to learn whole (Hu et al., 2021).

The linear maps keep their type and their weights. A hook adds B A x to their output, so that the
sampling engine, which reads plain weights, can run the model as soon as the adapters are merged.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nbkit._inputs import check_number

TARGETS = ("q_proj", "v_proj")


class Adapters(nn.Module):
    """Adapters of rank r on some linear maps of a frozen model; made by ``add_adapters``.

    Attributes:
        enabled: False makes the model what it was.

    """

    def __init__(self, maps: dict[str, nn.Linear], rank: int, scale: float, seed: int) -> None:
        super().__init__()
        self._maps = maps
        self.scale, self.enabled = scale, True
        generator = torch.Generator().manual_seed(seed)
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        for name, linear in maps.items():
            drawn = torch.randn(rank, linear.in_features, generator=generator)
            device = linear.weight.device
            self.down[name] = nn.Parameter(drawn.to(device) / linear.in_features**0.5)
            self.up[name] = nn.Parameter(torch.zeros(linear.out_features, rank, device=device))
            linear.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        def add(_linear: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            if not self.enabled:
                return output
            x = inputs[0].to(self.down[name].dtype)
            return output + (self.scale * (x @ self.down[name].T) @ self.up[name].T).to(
                output.dtype
            )

        return add

    def delta(self, name: str) -> Tensor:
        """What the adapter of one map adds to its weight, (out, in)."""
        return self.scale * self.up[name] @ self.down[name]

    @contextmanager
    def off(self) -> Iterator[None]:
        """The model without its adapters: the reference of RLHF, for no memory at all."""
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True

    @contextmanager
    @torch.no_grad()
    def merged(self) -> Iterator[None]:
        """The adapters inside the weights, for sampling and saving; afterwards all is as before.

        The adapted weights are copied, because subtracting in bfloat16 would not undo the addition.
        """
        before = {name: linear.weight.clone() for name, linear in self._maps.items()}
        for name, linear in self._maps.items():
            linear.weight += self.delta(name).to(linear.weight.dtype)
        try:
            with self.off():
                yield
        finally:
            for name, linear in self._maps.items():
                linear.weight.copy_(before[name])


class Adapted(Protocol):
    """A model that ``add_adapters`` has been called on."""

    adapters: Adapters


def merged(model: object) -> AbstractContextManager[None]:
    """``Adapters.merged`` of a model that has adapters; nothing to do for one without."""
    adapters = getattr(model, "adapters", None)
    return adapters.merged() if isinstance(adapters, Adapters) else nullcontext()


def without_adapters(called: Callable[..., Any], model: Adapted) -> Callable[..., Any]:
    """A function that runs a model as it was before it had adapters: its own reference.

    Args:
        called: what is called, the model or a wrapper around it.
        model: with adapters.

    """

    def run(*args: Any, **inputs: Any) -> Any:
        with model.adapters.off():
            return called(*args, **inputs)

    return run


def merged_state(model: object, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole weights of a model with its adapters inside them, and none of theirs.

    Args:
        model: whose weights they are; without adapters the weights are returned as they are.
        state: name to tensor, as ``Parallel.whole_state`` gives it.

    """
    adapters = getattr(model, "adapters", None)
    if not isinstance(adapters, Adapters):
        return dict(state)
    found = {name: value for name, value in state.items() if not name.startswith("adapters.")}
    for name in adapters.down:
        weight = name.replace("-", ".") + ".weight"
        up, down = (state[f"adapters.{way}.{name}"] for way in ("up", "down"))
        found[weight] = found[weight] + (adapters.scale * up @ down).to(found[weight].dtype)
    return found


def has_adapters(model: object) -> bool:
    """Whether ``add_adapters`` has been called on a model."""
    return isinstance(getattr(model, "adapters", None), Adapters)


def add_adapters(
    model: nn.Module,
    rank: int,
    *,
    targets: tuple[str, ...] = TARGETS,
    scale: float = 1.0,
    seed: int = 0,
) -> Adapters:
    """Freeze a model and give it adapters, as its submodule ``adapters``.

    Args:
        model: any module with linear maps of these names; changed in place. Modules beside the
            adapted ones that must learn (a value head) are unfrozen by the caller.
        rank: r; an adapter has r (in + out) parameters.
        targets: last part of the names of the maps that get one.
        scale: of what is added.
        seed: of the down projections; the up projections begin at 0, so nothing changes at first.

    Returns:
        the adapters.

    Raises:
        ValueError: no linear map with such a name, or a rank below 1.

    """
    check_number("rank", rank, 1)
    model.requires_grad_(False)
    maps = {
        name.replace(".", "-"): module
        for name, module in model.named_modules()
        if type(module) is nn.Linear and name.rpartition(".")[2] in targets
    }
    if not maps:
        raise ValueError(f"targets: {type(model).__name__} has no linear map named {targets}")
    adapters = Adapters(maps, rank, scale, seed)
    model.add_module("adapters", adapters)
    return adapters
