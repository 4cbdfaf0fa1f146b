"""What ZeRO divides among devices, and what it sends (Rajbhandari et al., arXiv:1910.02054).

With mixed precision and Adam a weight costs 2 bytes for itself, 2 for its gradient, and 12 for the
optimiser: float32 weight, mean, mean square. Stage 1 cuts the 12 in P, stage 2 the gradient too,
stage 3 everything. Activations come on top, and are not sharded.
"""

from dataclasses import dataclass
from typing import NamedTuple

from nbkit._inputs import check_choice, check_number

STAGES = (0, 1, 2, 3)


class Cuts(NamedTuple):
    """In how many parts a model's weights, gradients and optimiser's state are cut."""

    weights: int
    gradients: int
    optimiser: int


def zero_cuts(ranks: int, stage: int) -> Cuts:
    """What each stage of ZeRO cuts.

    Args:
        ranks: number of devices P.
        stage: 0 (data parallel), 1, 2 or 3.

    Raises:
        ValueError: another stage, or no device.

    """
    check_number("ranks", ranks, 1)
    check_choice("stage", stage, STAGES)
    return Cuts(*(ranks if stage >= first else 1 for first in (3, 2, 1)))


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

    Raises:
        ValueError: another stage, or no device.

    """
    cuts = zero_cuts(ranks, stage)
    return Bytes(
        weights=parameters * weight_bytes / cuts.weights,
        gradients=parameters * gradient_bytes / cuts.gradients,
        optimiser=parameters * optimiser_bytes / cuts.optimiser,
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

    Raises:
        ValueError: another stage.

    """
    check_choice("stage", stage, STAGES)
    share = (ranks - 1) / ranks
    return (3 if stage == 3 else 2) * share * parameters * element_bytes
