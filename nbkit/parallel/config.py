"""The settings of a back-end: one word chooses it, the rest has defaults."""

from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from nbkit._inputs import check_choice, check_number

# word -> (family, ZeRO stage, where the optimiser's state lives)
BACKENDS: dict[str, tuple[str, int, str]] = {
    "single": ("single", 0, "device"),
    "ddp": ("ddp", 0, "device"),
    "fsdp2": ("fsdp2", 3, "device"),
    "hsdp": ("fsdp2", 3, "device"),
    "zero1": ("deepspeed", 1, "device"),
    "zero2": ("deepspeed", 2, "device"),
    "zero3": ("deepspeed", 3, "device"),
    "zero1-offload": ("deepspeed", 1, "cpu"),
    "zero2-offload": ("deepspeed", 2, "cpu"),
    "zero3-offload": ("deepspeed", 3, "cpu"),
    "zero3-nvme": ("deepspeed", 3, "nvme"),
}


@dataclass(frozen=True)
class ParallelConfig:
    """How a model is spread over devices.

    Attributes:
        backend: a key of ``BACKENDS``.
        precision: of the forward and backward pass; parameters that the optimiser steps, its state
            and the sums of gradients over ranks are float32 in both.
        checkpointing: what a block keeps for its backward pass: "none" keeps every activation,
            "full" its input alone, "selective" also the results of its matrix products and of
            attention, "wide" of the products only those that are wider than their input.
        compile: compile each block with ``torch.compile``; not under ZeRO 3.
        reshard_after_forward: FSDP2 frees a block's parameters after its forward pass and gathers
            them again for the backward pass. False keeps them: more memory, less traffic.
        shard_size: ranks over which "hsdp" shards one copy of the model; 0: those of one machine.
        bucket_mb: megabytes of gradients that are reduced in one message.
        nvme_path: folder on a fast disk, for "zero3-nvme".
        seed: of the run, noted with its other settings. A back-end draws no random numbers; a
            training script hands its seed to ``nbkit.parallel.streams`` itself.

    """

    backend: str = "single"
    precision: Literal["float32", "bfloat16"] = "float32"
    checkpointing: Literal["none", "full", "selective", "wide"] = "none"
    compile: bool = False
    reshard_after_forward: bool = True
    shard_size: int = 0
    bucket_mb: int = 25
    nvme_path: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("backend", self.backend, tuple(BACKENDS))
        check_choice("precision", self.precision, ("float32", "bfloat16"))
        check_choice("checkpointing", self.checkpointing, ("none", "full", "selective", "wide"))
        for name in ("compile", "reshard_after_forward"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r}")
        for name in ("bucket_mb", "shard_size", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{name} must be a whole number; got {value!r}")
        check_number("bucket_mb", self.bucket_mb, 1)
        check_number("shard_size", self.shard_size, 0)
        if self.nvme_path is not None and not str(self.nvme_path).strip():
            raise ValueError("nvme_path is empty; name a folder on a fast disk, or leave it out")
        if self.offload == "nvme" and self.nvme_path is None:
            raise ValueError("nvme_path is missing: backend 'zero3-nvme' needs a folder on a disk")
        if self.compile and self.family == "deepspeed" and self.stage == 3:
            raise ValueError(
                f"compile does not go with backend {self.backend!r}: ZeRO 3 gathers weights in "
                "hooks on every module, which break a compiled block; choose 'fsdp2' or 'zero2'"
            )

    @classmethod
    def of(cls, config: object, **changes: Any) -> Self:
        """The settings that a job's configuration has under the same names; the rest by default.

        Args:
            config: a dataclass with ``backend`` among its fields.
            changes: settings that differ from those.

        """
        found = {f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)}
        return cls(**{**found, **changes})

    @property
    def family(self) -> str:
        """The library: "single", "ddp", "fsdp2" or "deepspeed"."""
        return BACKENDS[self.backend][0]

    @property
    def stage(self) -> int:
        """The ZeRO stage that this amounts to: 1 shards the optimiser, 2 gradients, 3 weights."""
        return BACKENDS[self.backend][1]

    @property
    def offload(self) -> str:
        """Where the optimiser's state lives: "device", "cpu" or "nvme"."""
        return BACKENDS[self.backend][2]
