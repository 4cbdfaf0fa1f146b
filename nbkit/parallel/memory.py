"""Bytes a device must hold in training, by stage: the arithmetic of ZeRO (arXiv:1910.02054).

With mixed precision and Adam a weight costs 2 bytes for itself, 2 for its gradient, and 12 for the
optimiser: float32 weight, mean, mean square. Stage 1 cuts the 12 in P, stage 2 the gradient too,
stage 3 everything. Activations come on top, and are not sharded.
"""

from dataclasses import dataclass

from nbkit._inputs import check_choice, check_number


@dataclass(frozen=True)
class Bytes:
    """Bytes of one device.

    Attributes:
        weights: of the forward pass.
        gradients: summed over micro-batches.
        optimiser: float32 weights (where they are a copy) and moments.

    """

    weights: float
    gradients: float
    optimiser: float

    @property
    def total(self) -> float:
        """All three."""
        return self.weights + self.gradients + self.optimiser


def zero_bytes(
    parameters: float,
    ranks: int,
    stage: int,
    *,
    weight_bytes: int = 2,
    gradient_bytes: int = 2,
    optimiser_bytes: int = 12,
) -> Bytes:
    """Bytes of one device under ZeRO, the shards of a model that is cut evenly.

    Args:
        parameters: of the model.
        ranks: number of devices P.
        stage: 0 (data parallel), 1, 2 or 3.
        weight_bytes: of one weight in the forward pass.
        gradient_bytes: of one gradient.
        optimiser_bytes: of the optimiser's state, one weight's; 8 where the weights of the forward
            pass are the float32 ones.

    """
    check_number("ranks", ranks, 1)
    check_choice("stage", stage, (0, 1, 2, 3))
    return Bytes(
        weights=parameters * weight_bytes / (ranks if stage == 3 else 1),
        gradients=parameters * gradient_bytes / (ranks if stage >= 2 else 1),
        optimiser=parameters * optimiser_bytes / (ranks if stage >= 1 else 1),
    )


def traffic_bytes(parameters: float, ranks: int, stage: int, *, element_bytes: int = 2) -> float:
    """Bytes that a device sends in one step with one micro-batch.

    Up to stage 2 as much as an all-reduce, 2 (P-1)/P of the gradients; stage 3 half as much again,
    because the weights are gathered for the forward pass and for the backward pass
    (arXiv:1910.02054, section 7).

    Args:
        parameters: of the model.
        ranks: number of devices P.
        stage: 0 to 3.
        element_bytes: of a weight or gradient on its way.

    """
    check_choice("stage", stage, (0, 1, 2, 3))
    share = (ranks - 1) / ranks
    return (3 if stage == 3 else 2) * share * parameters * element_bytes
