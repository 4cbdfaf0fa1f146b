"""The settings of a run of direct preference optimisation."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from nbkit._inputs import check_choice, check_number

Kind = Literal["sigmoid", "sigmoid-average", "robust", "hinge", "ipo", "ipo-average", "simpo"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class DPOConfig:
    """Settings of a run. The defaults are DPO as first published.

    Attributes:
        kind: a kind of ``nbkit.losses.preference_loss``: "sigmoid" (DPO; conservative DPO with
            label smoothing), "robust", "hinge", "ipo" (log-ratios summed over an answer) or
            "ipo-average" (a token). "sigmoid-average" is DPO on log-ratios a token (TRL:
            `sigmoid_norm`). "simpo" is ``nbkit.losses.simpo_loss``, which reads no reference.
        beta: strength of the pull to the reference; of IPO, the paper's tau; of SimPO, a scale.
        simpo_margin: of "simpo", the paper's gamma.
        label_smoothing: the share of labels taken to be flipped; "sigmoid" and "robust" only.
        sft_coefficient: weight of the negative log-likelihood of the chosen answers, a token,
            added to the loss; 0: none.
        steps: gradient steps.
        batch_size: pairs a step.
        micro_pairs: pairs of one forward pass; None: a batch at once. It changes memory and
            speed, not the gradient.
        precompute: score the pairs with the reference once, before the first step; otherwise
            once a step, with the reference kept in memory.
        learning_rate: peak, of AdamW.
        schedule: after the warm-up "constant", or down to 0 by "linear" or "cosine".
        warmup: steps of linear warm-up.
        betas: of AdamW.
        weight_decay: of AdamW.
        max_grad_norm: clip of the global gradient norm; None: none.

    """

    kind: Kind = "sigmoid"
    beta: float = 0.1
    simpo_margin: float = 0.0
    label_smoothing: float = 0.0
    sft_coefficient: float = 0.0
    steps: int = 100
    batch_size: int = 32
    micro_pairs: int | None = None
    precompute: bool = True
    learning_rate: float = 1e-4
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup: int = 10
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("schedule", self.schedule, ("constant", "linear", "cosine"))
        for name in ("steps", "batch_size"):
            check_number(name, getattr(self, name), 1)
        if self.micro_pairs is not None:
            check_number("micro_pairs", self.micro_pairs, 1)
        for name in ("beta", "learning_rate"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in ("sft_coefficient", "weight_decay", "warmup", "simpo_margin"):
            check_number(name, getattr(self, name), 0.0)
        if self.max_grad_norm is not None:
            check_number("max_grad_norm", self.max_grad_norm, 0.0, open_low=True)
        if self.simpo_margin and self.kind != "simpo":
            raise ValueError(
                f"simpo_margin is {self.simpo_margin}, but kind {self.kind!r} has no margin; set "
                "it to 0 or kind to 'simpo'"
            )
        check_number("label_smoothing", self.label_smoothing, 0.0, 0.5)
        smoothed = ("sigmoid", "sigmoid-average", "robust")
        if self.label_smoothing and self.kind not in smoothed:
            raise ValueError(
                f"label_smoothing is {self.label_smoothing}, but kind {self.kind!r} has none; set "
                f"it to 0 or choose one of {', '.join(smoothed)}"
            )
        if self.kind == "robust" and self.label_smoothing == 0.5:
            raise ValueError(
                "label_smoothing is 0.5: labels flipped that often hold no information, and kind "
                "'robust' divides by 1 - 2 * 0.5; choose less"
            )

    @property
    def reads_reference(self) -> bool:
        """Whether the loss compares with a reference; SimPO's does not."""
        return self.kind != "simpo"

    def rate(self, number: int, steps: int) -> float:
        """The learning rate of a step.

        Args:
            number: of the step, from 0.
            steps: of the whole run.

        """
        if number < self.warmup:
            return self.learning_rate * (number + 1) / self.warmup
        done = (number - self.warmup) / max(1, steps - self.warmup)
        left = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        return self.learning_rate * left[self.schedule]
