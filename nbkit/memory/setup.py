"""What lies in memory from step to step: weights, gradients, optimiser, and shards of them."""

from dataclasses import dataclass, field
from typing import Literal

from nbkit._inputs import check_choice, check_number
from nbkit.memory.shape import ModelShape
from nbkit.memory.zero import STAGES, zero_cuts


@dataclass(frozen=True)
class Precision:
    """Bytes of a number, by what it is.

    Attributes:
        weights: as the forward pass reads them.
        gradients: of what is trained.
        master: a second copy of what is trained, for the optimiser; 0: none.
        moments: of Adam, both together.
        activations: of what is stored for the backward pass.

    """

    weights: int = 2
    gradients: int = 2
    master: int = 0
    moments: int = 4
    activations: int = 2


# torch's AdamW keeps its moments in the dtype of the weights.
BF16 = Precision()
# The usual recipe (DeepSpeed, FSDP): float32 master and moments, bfloat16 in the passes.
MIXED = Precision(weights=2, gradients=2, master=4, moments=8)
FP32 = Precision(weights=4, gradients=4, master=0, moments=8, activations=4)


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    Attributes:
        precision: bytes of a number.
        method: "full", or "lora" with adapters on `targets`.
        rank: of the adapters.
        targets: matrices of a block that get one.
        shards: GPUs that share what `stage` says.
        stage: 0: nothing; 1: optimiser and master; 2: gradients too; 3: weights too, gathered block
            by block (ZeRO, arXiv:1910.02054; FSDP's full sharding is 3).
        prefetch: blocks that are gathered at one time under stage 3.
        checkpointing: store the input of each block and recompute the rest.
        accumulated: gradients of earlier micro-batches lie there during a backward pass.

    """

    precision: Precision = field(default_factory=Precision)
    method: Literal["full", "lora"] = "full"
    rank: int = 16
    targets: tuple[str, ...] = ("q", "k", "v", "o", "gate", "up", "down")
    shards: int = 1
    stage: int = 0
    prefetch: int = 2
    checkpointing: bool = False
    accumulated: bool = False

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("full", "lora"))
        check_choice("stage", self.stage, STAGES)
        check_number("shards", self.shards, 1)
        check_number("rank", self.rank, 1)
        check_number("prefetch", self.prefetch, 1)
        if self.shards > 1 and self.stage == 0:
            raise ValueError(f"stage is 0: {self.shards} GPUs then hold everything each; give 1-3")

    def trainable(self, shape: ModelShape, total: int) -> int:
        """Numbers that get a gradient, of a model with `total` parameters."""
        if self.method == "full":
            return total
        unknown = sorted(set(self.targets) - shape.linears.keys())
        if unknown:
            raise ValueError(f"targets: {unknown} are no matrices; choose among {[*shape.linears]}")
        return shape.layers * self.rank * sum(sum(shape.linears[t]) for t in self.targets)


def static_memory(
    shape: ModelShape, training: Training | None, *, total: int | None = None, weights: int = 2
) -> dict[str, float]:
    """Bytes on one GPU between two steps, by what they are.

    Args:
        shape: of the model.
        training: how it is trained; None: frozen and whole.
        total: its parameters; None: those of the language model.
        weights: bytes of a weight of a frozen model.

    Returns:
        "parameters"; and of a trained model "master", "gradients", "optimiser", "gathered" (the
        blocks, or the embedding, that stage 3 gathers at one time).

    """
    total = shape.parameters if total is None else total
    if training is None:
        return {"parameters": float(total * weights)}
    precision, cuts = training.precision, zero_cuts(training.shards, training.stage)
    trained = training.trainable(shape, total)
    held = total if training.method == "full" else total + trained
    gathered = 0.0
    if cuts.weights > 1:
        unit = max(training.prefetch * shape.block_parameters, shape.embedding_parameters)
        gathered = float(unit * precision.weights)
    return {
        "parameters": held * precision.weights / cuts.weights,
        "master": trained * precision.master / cuts.optimiser,
        "gradients": trained * precision.gradients / cuts.gradients,
        "optimiser": trained * precision.moments / cuts.optimiser,
        "gathered": gathered,
    }
