"""The interface that a trainer speaks to; each back-end fills in what differs.

parallel = connect(ParallelConfig(backend="fsdp2"))
parallel.prepare(model, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
tokens, = parallel.total(mask.sum())
for part in parallel.parts(micro_batches):
    parallel.backward(loss_sum(parallel.model, part) / tokens)
norm = parallel.step(max_norm=1.0)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nbkit.parallel import counts
from nbkit.parallel.attention import keep_cudnn_from_masks
from nbkit.parallel.blocks import prepare_blocks
from nbkit.parallel.config import ParallelConfig
from nbkit.parallel.filling import filler_of
from nbkit.parallel.state_tensors import like, whole
from nbkit.parallel.world import World

Item = TypeVar("Item")
MakeOptimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
# {"model": {name: tensor}, "optimiser": {kind: {name: tensor}}}: what a checkpoint shards
State = dict[str, dict[str, Any]]


class Parallel(ABC):
    """One model with its optimiser, spread over the ranks of a world.

    Attributes:
        config: how.
        world: who.
        model: call this in training; its parameters may be shards.
        optimiser: has ``param_groups``, where a scheduler sets the learning rate.

    """

    trains: ClassVar[str]  # one line for a log: which of weights, gradients, state are sharded

    def __init__(self, config: ParallelConfig, world: World) -> None:
        self.config, self.world = config, world
        self.model: Any = None
        self.optimiser: Any = None
        self._plain: Any = None
        self._has_gradients = False

    def prepare(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None:
        """Spread a model, then make its optimiser (it must hold the parameters as they are then).

        Hand the model over on the CPU; all ranks but the first may hand over shapes alone, and get
        its weights (``filling``). FSDP2 moves it to the device block by block and cuts each at
        once: the device never holds more than its shards and one unit whole, a block or what lies
        outside of all blocks. All others move the whole model first, in the precision that it has:
        ZeRO needs room for that, although less is left when it has cut its share.

        Gradients that an earlier training left in the model are dropped.

        Args:
            model: the same weights on every rank, or on the first; changed in place.
            make_optimiser: from parameters to an optimiser of torch.

        Raises:
            ValueError: a model without a parameter that learns.

        """
        if not any(p.requires_grad for p in model.parameters()):
            raise ValueError(
                "model: all its parameters are frozen; a model that does not learn goes to "
                "`frozen`, which makes no optimiser and no reducer"
            )
        model.zero_grad(set_to_none=True)
        self._plain = self._place(model)
        prepare_blocks(model, self.config)
        keep_cudnn_from_masks(model)
        self._wrap(model, make_optimiser)

    def _place(self, model: nn.Module) -> nn.Module:
        filler = filler_of(self, model)
        return model.to(self.world.device) if filler is None else filler.fill(model)

    def frozen(self, model: nn.Module) -> Any:
        """Place a model that only scores (reference, reward): on the device, without gradients.

        DDP would refuse it: there is no gradient to reduce. Every rank holds all of it, except
        under FSDP2. Its forward pass has the policy's precision: equal weights give equal logits.
        """
        return self._place(model).requires_grad_(False).eval()

    def another(self) -> "Parallel":
        """A back-end of the same kind, for a second model that learns (a value model)."""
        return type(self)(self.config, self.world)

    @abstractmethod
    def _wrap(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None: ...

    # ---- a step

    def total(self, *values: float | Tensor) -> list[float]:
        """Sum each value over the ranks (token counts, sums of metrics)."""
        return counts.total(values, self.world.device)

    def largest(self, value: float) -> float:
        """The largest value of any rank."""
        return counts.largest(value, self.world.device)

    def sum(self, values: Tensor) -> Tensor:
        """Add a tensor up over the ranks."""
        if dist.is_initialized():
            dist.all_reduce(values)
        return values

    def share(self, number: int) -> slice:
        """This rank's part of `number` items in a row; the first ranks get what is left over."""
        size, extra = divmod(number, self.world.size)
        start = self.world.rank * size + min(self.world.rank, extra)
        return slice(start, start + size + (self.world.rank < extra))

    def everyone(self, value: Any) -> list[Any]:
        """The value of each rank, by rank, on every rank; for small things."""
        return counts.gather_objects(value, self.world.device)

    def parts(self, micro_batches: Sequence[Item]) -> Iterator[Item | None]:
        """The micro-batches of one step, as many on every rank; gradients are summed at the last.

        Under sharding a forward pass is a collective operation: a rank with fewer micro-batches
        than another is given None, and must run the model once more with a loss of 0.
        """
        number = int(self.largest(len(micro_batches)))
        for index in range(number):
            self.expect(last=index == number - 1)
            yield micro_batches[index] if index < len(micro_batches) else None
        self.expect(last=True)

    def expect(self, *, last: bool) -> None:  # noqa: B027 (most back-ends need not know)
        """Told before each forward pass, because DDP decides there whether it will reduce."""

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a part of the global loss.

        Args:
            loss: this rank's part: local sum over global count. The parts of all ranks and all
                micro-batches add up to the loss of the batch. One that is not finite makes the
                whole gradient nan, on all ranks, so that no step can be taken on it.

        """
        # Every back-end averages gradients over the ranks; here that division is undone. And an
        # infinite loss can have a finite gradient: nan takes that away, without asking the GPU.
        factor = torch.full_like(loss, self.world.size, requires_grad=False)
        self._backward(loss * factor.masked_fill(~loss.detach().isfinite(), math.nan))
        self._has_gradients = True

    def _backward(self, loss: Tensor) -> None:
        loss.backward()

    def step(self, max_norm: float | None = None) -> float:
        """Clip to a global norm, step, clear the gradients; return the norm before clipping.

        Raises:
            ValueError: no ``backward`` since the last step.
            RuntimeError: a norm that is not finite; no step is taken.

        """
        norm = self.try_step(max_norm)
        if not math.isfinite(norm):
            raise RuntimeError(
                f"the gradient's norm is {norm}; no step was taken. Look at the logits, the "
                "learning rate and the loss of this batch"
            )
        return norm

    def try_step(self, max_norm: float | None = None) -> float:
        """As ``step``; a norm that is not finite is returned, and then no step was taken.

        The norm is that of the summed gradient, so all ranks get the same and decide alike. The
        gradients are cleared either way; weights and optimiser are as they were.

        Raises:
            ValueError: no ``backward`` since the last step.

        """
        if not self._has_gradients:
            raise ValueError(
                "a step without a micro-batch: call `backward` for a part of the loss first; if no "
                "rank has one, leave the step out"
            )
        self._has_gradients = False
        norm = self._step(math.inf if max_norm is None else max_norm)
        # A caller's autocast around the loop would keep copies of the weights as they were.
        torch.clear_autocast_cache()
        return norm

    def _step(self, max_norm: float) -> float:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        full = getattr(norm, "full_tensor", None)
        value = float(norm if full is None else full())
        if math.isfinite(value):
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return value

    # ---- the whole model

    @property
    def plain(self) -> Any:
        """The model as it was handed to ``prepare``; its parameters may be shards."""
        return self._plain

    def gathered(self) -> AbstractContextManager[Any]:
        """The module with whole parameters, for sampling; every rank must enter and leave.

        It is the model that was handed to ``prepare``: read it, do not train it. Its forward passes
        send nothing: ranks may run as many as each needs.
        """
        return nullcontext(self._plain)

    def whole_state(self, *, everywhere: bool = True) -> dict[str, Tensor]:
        """All parameters and buffers, whole, in float32 where they are trained, on the CPU.

        A collective operation: every rank must call it. Every rank gets the result, or, unless
        `everywhere`, the first alone and the others {}: their machine then holds the model once.
        """
        found: dict[str, Tensor] = {}
        for name, value in self.state(optimiser=False)["model"].items():
            tensor = whole(value)
            if everywhere or self.world.is_main:
                found[name] = tensor.cpu()
        return found

    # ---- checkpoints

    def state(self, *, optimiser: bool = True) -> State:
        """What a checkpoint holds, by the names of the plain model, sharded where it is sharded.

        A collective operation. Tensors that share memory (tied embeddings) appear once.
        """
        found: State = {"model": dict(self._named()), "optimiser": {}}
        if optimiser:
            for name, parameter in self._plain.named_parameters():
                for kind, value in self.optimiser.state.get(parameter, {}).items():
                    found["optimiser"].setdefault(kind, {})[name] = value
        return found

    def empty_state(self, kinds: dict[str, list[str]]) -> State:
        """Tensors for a checkpoint to be read into.

        Args:
            kinds: for each kind of optimiser state ("exp_avg") the names of its parameters.

        """
        found: State = {"model": dict(self._named()), "optimiser": {}}
        parameters = dict(self._plain.named_parameters())
        groups = self.optimiser.param_groups
        for kind, names in kinds.items():
            made = {name: like(kind, parameters[name], groups) for name in names}
            found["optimiser"][kind] = made
        return found

    def put(self, state: State) -> None:
        """Take over what was read into ``empty_state``."""
        parameters = dict(self._plain.named_parameters())
        for kind, values in state["optimiser"].items():
            for name, value in values.items():
                self.optimiser.state[parameters[name]][kind] = value

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        # First: a forward pass without a backward pass leaves parameters of FSDP2 whole that lie
        # outside of all blocks; this call puts them back in shards, which the optimiser knows.
        persistent = set(self._plain.state_dict(keep_vars=True))
        for name, parameter in self._plain.named_parameters():
            yield name, parameter.detach()
        for name, buffer in self._plain.named_buffers():
            if name in persistent:
                yield name, buffer

    def save(self, run: Path, number: int, **extra: Any) -> Path:
        """Write a sharded checkpoint, see ``nbkit.parallel.checkpoint.save``."""
        from nbkit.parallel.checkpoint import save  # torch's part of it takes a second to import

        return save(self, run, number, **extra)

    def load(self, run: Path, number: int | None = None, **extra: Any) -> dict[str, Any] | None:
        """Read the newest checkpoint of a run, see ``nbkit.parallel.checkpoint.load``."""
        from nbkit.parallel.checkpoint import load

        return load(self, run, number, **extra)

    def barrier(self) -> None:
        """Wait for all ranks."""
        if dist.is_initialized():
            dist.barrier()
