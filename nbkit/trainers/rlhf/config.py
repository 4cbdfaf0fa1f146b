"""The settings of PPO for language models."""

from dataclasses import dataclass
from typing import Literal

from nbkit._inputs import check_choice, check_number
from nbkit.trainers.kl_controller import AdaptiveKL, FixedKL
from nbkit.trainers.micro import check_micro


@dataclass(frozen=True)
class RLHFConfig:
    """Settings of a run.

    Attributes:
        updates: batches of completions.
        prompts: prompts a batch.
        group_size: completions of each prompt.
        max_new_tokens: limit of a completion, EOS included.
        temperature: of the sampler; the loss scores the same tempered distribution.
        kl_coefficient: beta, what a nat of divergence takes off the reward; with a target, its
            first value.
        kl_target: wanted divergence in nats a sequence; None: the coefficient is fixed.
        kl_horizon: of the adaptive coefficient, in sequences (``AdaptiveKL``).
        kl_kind: "k1" (unbiased, and the gradient of the divergence) or "k3", per token.
        gamma: discount.
        lam: of GAE.
        epochs: passes over each batch.
        minibatches: gradient steps a pass.
        clip: the policy's ratio stays within 1 - clip and 1 + clip.
        value_clip: how far a value may move in one update; None: any distance.
        value_coefficient: of the value loss, where policy and value share a trunk. Separate models
            have separate losses and learning rates, and it does nothing there.
        entropy_coefficient: of an entropy bonus in the loss.
        missing_eos_penalty: taken off the score of a completion that met the limit.
        whiten_rewards: divide the rewards of tokens by their standard deviation; their mean stays.
        whiten_advantages: standardise advantages over the tokens of a batch.
        learning_rate: of the policy, AdamW.
        value_learning_rate: of the value model; None: the policy's.
        value_warmup: updates in which only the value model learns.
        decay: both rates fall linearly to a tenth at the last update.
        warmup: updates of linear warm-up.
        betas: of AdamW.
        weight_decay: of AdamW.
        max_grad_norm: clip of the gradient norm of each model; None: none.
        micro_tokens: budget (rows x longest) of one forward pass; None: a minibatch at once. It
            changes memory and speed, not the gradient.
        micro_rows: rows of one forward pass on one device, in place of that budget.
        sampler_dtype: "bfloat16": sample with a copy of the weights in it, as a ``parallel`` of
            that precision computes the loss; None: the weights as they are.
        release_engine: hand back the sampler's cache and its copies of weights after each batch:
            memory for the update, at the price of setting them up again.

    """

    updates: int = 100
    prompts: int = 64
    group_size: int = 1
    max_new_tokens: int = 40
    temperature: float = 1.0
    kl_coefficient: float = 0.05
    kl_target: float | None = None
    kl_horizon: float = 10_000.0
    kl_kind: Literal["k1", "k3"] = "k1"
    gamma: float = 1.0
    lam: float = 0.95
    epochs: int = 2
    minibatches: int = 2
    clip: float = 0.2
    value_clip: float | None = 0.2
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    missing_eos_penalty: float = 0.0
    whiten_rewards: bool = False
    whiten_advantages: bool = True
    learning_rate: float = 1e-3
    value_learning_rate: float | None = None
    value_warmup: int = 0
    decay: bool = False
    warmup: int = 0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0
    micro_tokens: int | None = None
    micro_rows: int | None = None
    sampler_dtype: Literal["bfloat16"] | None = None
    release_engine: bool = False

    def __post_init__(self) -> None:
        for name in ("updates", "prompts", "group_size", "max_new_tokens", "epochs", "minibatches"):
            check_number(name, getattr(self, name), 1)
        for name in ("temperature", "learning_rate", "kl_horizon", "clip"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in (
            "kl_coefficient", "value_coefficient", "entropy_coefficient", "missing_eos_penalty",
            "value_warmup", "warmup", "weight_decay",
        ):  # fmt: skip
            check_number(name, getattr(self, name), 0.0)
        for name in ("gamma", "lam"):
            check_number(name, getattr(self, name), 0.0, 1.0)
        for name in ("value_clip", "value_learning_rate", "max_grad_norm", "kl_target"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, open_low=True)
        check_micro(self.micro_tokens, self.micro_rows)
        check_choice("sampler_dtype", self.sampler_dtype, ("bfloat16", None))
        check_choice("kl_kind", self.kl_kind, ("k1", "k3"))
        if self.kl_target is not None and not self.kl_coefficient:
            raise ValueError(
                "kl_coefficient is 0: an adaptive coefficient is multiplied at each step, so it "
                "must begin above 0"
            )
        if self.minibatches > self.prompts * self.group_size:
            raise ValueError(
                f"minibatches: {self.minibatches} of them, but only "
                f"{self.prompts * self.group_size} completions a batch"
            )

    def controller(self) -> FixedKL:
        """Return a new controller of the KL coefficient."""
        if self.kl_target is None:
            return FixedKL(self.kl_coefficient)
        return AdaptiveKL(self.kl_coefficient, self.kl_target, self.kl_horizon)

    def rate_factor(self, number: int) -> float:
        """What multiplies the learning rates in update `number`, counted from 0."""
        warm = min(1.0, (number + 1) / self.warmup) if self.warmup else 1.0
        return warm * (max(0.1, 1 - number / self.updates) if self.decay else 1.0)
