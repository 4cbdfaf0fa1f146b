"""What fine-tuning and the training of a reward model have in common: settings of their steps."""

from dataclasses import dataclass

from nbkit._inputs import check_number


@dataclass(frozen=True)
class SupervisedConfig:
    """Settings of AdamW on data in a shuffled order; each epoch is a new permutation.

    Attributes:
        steps: gradient steps.
        batch_size: items a step.
        learning_rate: peak, with a linear decay to a tenth.
        warmup: steps of linear warm-up.
        weight_decay: of AdamW.
        max_grad_norm: clip of the global gradient norm.
        micro_tokens: budget (rows x longest) of one forward pass; None: a batch at once. It changes
            memory and speed, not the gradient.

    """

    steps: int = 400
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup: int = 20
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    micro_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            check_number(name, getattr(self, name), 1)
        for name in ("learning_rate", "max_grad_norm"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in ("warmup", "weight_decay"):
            check_number(name, getattr(self, name), 0)
