"""DeepSpeed ZeRO 1, 2 and 3, with the optimiser on the device, on the CPU or on a disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from nbkit.parallel.base import MakeOptimiser, Parallel, State
from nbkit.parallel.config import ParallelConfig
from nbkit.parallel.deepspeed_setup import need_nvme, ready
from nbkit.parallel.state_tensors import count_beside


def deepspeed_config(config: ParallelConfig) -> dict[str, Any]:
    """What stands in `deepspeed_config.json` for these settings.

    Accumulation, clipping and the step belong to our loop: ``managed_gradient_accumulation`` is
    off, and the batch size that DeepSpeed asks for is a label.
    """
    zero: dict[str, Any] = {
        "stage": config.stage,
        "overlap_comm": config.stage > 1,
        "contiguous_gradients": True,
        "reduce_bucket_size": config.bucket_mb * 2**20 // 4,
    }
    if config.stage == 3:
        zero["stage3_prefetch_bucket_size"] = config.bucket_mb * 2**20 // 4
        zero["stage3_param_persistence_threshold"] = 10_000
    else:
        zero["allgather_bucket_size"] = config.bucket_mb * 2**20 // 4
    if config.offload != "device":
        place: dict[str, Any] = {"device": config.offload}
        if torch.cuda.is_available():
            place["pin_memory"] = True
        if config.offload == "nvme":
            place["nvme_path"] = config.nvme_path
        zero["offload_optimizer"] = place
        if config.stage == 3:
            zero["offload_param"] = dict(place)
    settings: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "managed_gradient_accumulation": False,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }
    if config.precision == "bfloat16":
        settings["bf16"] = {"enabled": True}
        settings["data_types"] = {"grad_accum_dtype": "fp32"}
        settings["communication_data_type"] = "fp32"
    return settings


class Zero(Parallel):
    """Stage 1 shards the optimiser's state, 2 the gradients as well, 3 the weights as well."""

    trains: ClassVar[str] = "by stage: state, gradients, weights sharded"

    def _wrap(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None:
        if self.config.offload == "nvme":
            need_nvme()
        deepspeed = ready(self.world.device)
        learning = [p for p in model.parameters() if p.requires_grad]
        self.model, self._zero, _, _ = deepspeed.initialize(
            model=model,
            optimizer=make_optimiser(learning),
            model_parameters=learning,
            config=deepspeed_config(self.config),
            dist_init_required=False,
        )
        self.optimiser = self._zero.optimizer  # torch's own, over the flat shards
        self._mesh = init_device_mesh("cpu", (self.world.size,))

    def frozen(self, model: nn.Module) -> Any:
        """As in ``Parallel``; in bfloat16 parameters are cast, as DeepSpeed casts a policy's."""
        if self.config.precision == "bfloat16":
            for parameter in model.parameters():
                if parameter.dtype == torch.float32:
                    parameter.data = parameter.data.bfloat16()
        return super().frozen(model)

    def _backward(self, loss: Tensor) -> None:
        self.model.backward(loss)

    def _step(self, max_norm: float) -> float:
        self._zero.clip_grad = 0.0 if max_norm == float("inf") else max_norm
        self.model.step()
        norm = self.model.get_global_grad_norm()
        return float(norm) if self.model.was_step_applied() else float("nan")

    @contextmanager
    def gathered(self) -> Iterator[Any]:
        """Stage 3 gathers every parameter; below it every rank has them all."""
        if self.config.stage < 3:
            yield self._plain
            return
        import deepspeed

        with deepspeed.zero.GatheredParameters(list(self._plain.parameters())):
            yield self._plain

    def whole_state(self, *, everywhere: bool = True) -> dict[str, Tensor]:
        """As in ``Parallel``: the float32 weights that the optimiser steps."""
        wanted = everywhere or self.world.is_main
        found = dict(self._buffers()) if wanted else {}
        for name, parameter in self._plain.named_parameters():
            tensor = self._full(parameter)
            if wanted:
                found[name] = tensor.cpu()
        return found

    # A checkpoint holds each tensor in its own shape, cut along its first dimension as FSDP2 cuts
    # it, so that any back-end on any number of ranks can read it. DeepSpeed's own files can be
    # read by the same stage on as many ranks only.

    def state(self, *, optimiser: bool = True) -> State:
        """As in ``Parallel``; one parameter is whole at a time."""
        from deepspeed.utils import safe_get_full_optimizer_state

        found: State = {"model": dict(self._buffers()), "optimiser": {}}
        flat: dict[str, Any] = next(iter(self.optimiser.state.values()), {})
        kinds = [kind for kind, value in flat.items() if value.ndim]
        for name, parameter in self._plain.named_parameters():
            found["model"][name] = self._cut(self._full(parameter))
            if not optimiser or not parameter.requires_grad:
                continue
            for kind in kinds:
                whole = safe_get_full_optimizer_state(parameter, kind).view(self._shape(parameter))
                found["optimiser"].setdefault(kind, {})[name] = self._cut(whole)
            if "step" in flat:
                count = torch.as_tensor(flat["step"], dtype=torch.float32).cpu().clone()
                found["optimiser"].setdefault("step", {})[name] = count
        return found

    def empty_state(self, kinds: dict[str, list[str]]) -> State:
        """As in ``Parallel``."""
        parameters = dict(self._plain.named_parameters())
        found: State = {"model": dict(self._buffers()), "optimiser": {}}
        for name, parameter in parameters.items():
            found["model"][name] = self._cut(torch.zeros(self._shape(parameter)))
        for kind, names in kinds.items():
            found["optimiser"][kind] = {
                name: torch.zeros(())
                if kind == "step"
                else self._cut(torch.zeros(self._shape(parameters[name])))
                for name in names
            }
        return found

    def put(self, state: State) -> None:
        """As in ``Parallel``; a fresh optimiser is given its state first."""
        kinds = state["optimiser"]
        if kinds:
            self._make_states(kinds)
        for name, parameter in self._plain.named_parameters():
            self._fill(parameter, state["model"][name].full_tensor().to(self.world.device))
            for kind, values in kinds.items():
                if kind != "step" and name in values:
                    value = values[name].full_tensor().to(self.world.device)
                    self._set(parameter, value, kind)
        if self.config.stage == 3:
            self._renew_weights()

    # DeepSpeed keeps no float32 weights of a parameter that does not learn: there is but the one
    # of the forward pass.

    def _full(self, parameter: Any) -> Tensor:
        """A parameter, whole, in float32."""
        import deepspeed
        from deepspeed.utils import safe_get_full_fp32_param

        if parameter.requires_grad:
            learned: Tensor = safe_get_full_fp32_param(parameter).detach()
            return learned
        with deepspeed.zero.GatheredParameters([parameter], enabled=self.config.stage == 3):
            return parameter.detach().float().clone()

    def _fill(self, parameter: Any, whole: Tensor) -> None:
        """Put values into a parameter; of stage 3 those of the forward pass follow later."""
        import deepspeed

        if parameter.requires_grad:
            self._set(parameter, whole)
        if self.config.stage < 3:  # the weights of the forward pass are a copy
            parameter.data.copy_(whole)
        elif not parameter.requires_grad:
            with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
                parameter.data.copy_(whole)

    def _set(self, parameter: Any, whole: Tensor, kind: str | None = None) -> None:
        """Put this rank's part into the float32 weights (None) or a kind of the optimiser's state.

        DeepSpeed's own function fails at stage 3 for a parameter whose elements do not share out
        evenly, such as a bias of one: it forgets that the last parts are padded.
        """
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        if self.config.stage < 3:
            if kind is None:
                safe_set_full_fp32_param(parameter, whole)
            else:
                safe_set_full_optimizer_state(parameter, whole, kind)
            return
        zero = self._zero
        part, group = zero._get_fp32_opt_state_partition(
            parameter, release_swap_buffers=False, optim_state_key=kind
        )
        size = part.numel()
        padded = nn.functional.pad(whole.flatten(), (0, size * self.world.size - whole.numel()))
        part.data.copy_(padded[size * self.world.rank :][:size])
        if zero._swappable_optimizer_subgroup(group):
            zero._optimizer_states_and_gradient_swap_out(group)

    def _renew_weights(self) -> None:
        """Stage 3: the shards of the forward pass from those of the optimiser, as after a step."""
        zero = self._zero
        zero._partition_all_parameters()
        for number in range(len(zero.fp16_groups)):
            zero._reassign_or_swap_out_partitioned_parameters(number)
        if zero.persistent_parameters:
            zero.persistent_parameters[0].all_gather(zero.persistent_parameters)

    def _make_states(self, kinds: dict[str, dict[str, Tensor]]) -> None:
        zero = self._zero
        sharded = self.config.stage == 3
        # Stage 1 in bfloat16 is a class of its own, with a name of its own for the same list.
        flats = next(getattr(zero, name) for name in _FLATS[sharded] if hasattr(zero, name))
        for flat in flats:
            state = self.optimiser.state[flat]
            for kind, values in kinds.items():
                if kind == "step":
                    count = next(iter(values.values())).clone()
                    state["step"] = count.to(count_beside(flat, self.optimiser.param_groups))
                else:
                    state[kind] = torch.zeros_like(flat.detach())
        if not sharded:
            zero._lazy_init_hp_params_optimizer_state()

    def _shape(self, parameter: Any) -> torch.Size:
        return torch.Size(getattr(parameter, "ds_shape", parameter.shape))

    def _buffers(self) -> Iterator[tuple[str, Tensor]]:
        persistent = set(self._plain.state_dict(keep_vars=True))
        for name, buffer in self._plain.named_buffers():
            if name in persistent:
                yield name, buffer

    def _cut(self, whole: Tensor) -> Any:
        """This rank's rows of a tensor that every rank has, on the CPU."""
        rows = whole.detach().chunk(self.world.size) if whole.ndim else (whole.detach(),)
        empty = whole.detach()[:0]
        mine = rows[self.world.rank] if self.world.rank < len(rows) else empty
        return DTensor.from_local(
            mine.cpu().clone(),
            self._mesh,
            [Shard(0)],
            run_check=False,
            shape=whole.shape,
            stride=whole.contiguous().stride(),
        )


# below stage 3 (False) and at stage 3 (True): where DeepSpeed keeps this rank's float32 weights
_FLATS = {
    False: ("single_partition_of_fp32_groups", "fp32_groups_flat_partition"),
    True: ("fp32_partitioned_groups_flat",),
}
