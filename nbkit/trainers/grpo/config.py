"""The settings of the group-based trainer; `nbkit.trainers.grpo.variants` names sets of them."""

from dataclasses import dataclass
from typing import Literal

from nbkit._inputs import check_choice, check_number
from nbkit.masks import AGGREGATION_MODES
from nbkit.trainers.micro import check_micro


@dataclass(frozen=True)
class GRPOConfig:
    """Settings of a run. The defaults are GRPO without its KL term.

    Attributes:
        updates: batches of completions.
        prompts: prompts a batch.
        group_size: completions G of each prompt.
        max_new_tokens: limit of a completion, EOS included.
        temperature: of the sampler; the loss scores the same tempered distribution.
        advantage: "group" compares a completion's reward with its group's; "return" gives each
            token its reward-to-go and compares across the batch (REINFORCE++).
        baseline: of "group": the "mean" of the group or the "leave-one-out" mean of the others.
        scale: of "group": divide by the "std" of the group, of the "batch", or None.
        whiten: standardise the advantages over all tokens of the batch.
        objective: "clip" (PPO's), "cispo", or "policy-gradient" (no ratio at all).
        ratio: of "clip": one a "token", or one a "sequence" (GSPO).
        clip_low: the ratio's lower bound is 1 - clip_low; None: none (CISPO only).
        clip_high: its upper bound is 1 + clip_high.
        aggregation: a mode of ``nbkit.masks.aggregate``; "seq-mean-token-sum-norm" divides by
            `max_new_tokens`.
        kl_coefficient: of the divergence from the reference; above 0 a reference is needed.
        kl_kind: "k1", "k2" or "k3", see ``nbkit.kl.kl_estimate``.
        kl_place: in the "loss", or taken off the "reward" (without gradient).
        kl_ratio: multiply a KL in the loss by the ratio, which makes the gradient of k1 and of k3
            that of the divergence (TRL calls it bias correction).
        silent_groups: groups of equal rewards have advantage 0: "count" keeps their tokens in the
            denominators, "exclude" does not.
        dynamic_sampling: ask for further prompts until `prompts` groups have a signal (DAPO).
        max_rounds: of dynamic sampling; then the batch is trained on as it is.
        overlong_buffer: tokens before the limit over which a penalty grows from 0 to
            `overlong_penalty` (DAPO, arXiv:2503.14476, eq. 13); 0: none.
        overlong_penalty: taken off the reward of a completion that reaches the limit.
        mask_truncated: completions that met the limit take no part in the loss.
        importance_cap: the old log-probabilities are computed by the trainer, and each token is
            weighted by min(trainer / sampler, cap), without gradient (truncated importance
            sampling; with objective "clip" the decoupled objective of ``nbkit.off_policy``). None:
            no weights. What either does with the rounding of bfloat16 stands in ``GRPOTrainer``.
        old_logprobs: whose log-probabilities are the old ones of the ratio: those that the
            "sampler" reported, or the "trainer"'s own, computed before its first step on the batch.
            The trainer's without an `importance_cap` take the samples for its own: nothing then
            corrects for an older or otherwise different sampler. None: the trainer's with an
            `importance_cap`, else the sampler's.
        epochs: passes over each batch.
        minibatches: gradient steps a pass.
        micro_tokens: budget (rows x longest) of one forward pass; None: a minibatch at once. It
            changes memory and speed, not the gradient.
        micro_rows: rows of one forward pass on one device, in place of that budget.
        sampler_dtype: "bfloat16": sample with a copy of the weights in it, as a ``parallel`` of
            that precision computes the loss; None: the weights as they are.
        release_engine: give the sampler's memory back before the update; costs a start of it.
        learning_rate: of AdamW.
        decay: linearly, to a tenth at the last update.
        warmup: updates of linear warm-up.
        betas: of AdamW.
        weight_decay: of AdamW.
        max_grad_norm: clip of the global gradient norm; None: none.

    """

    updates: int = 100
    prompts: int = 32
    group_size: int = 8
    max_new_tokens: int = 48
    temperature: float = 1.0
    advantage: Literal["group", "return"] = "group"
    baseline: Literal["mean", "leave-one-out"] = "mean"
    scale: Literal["std", "batch"] | None = "std"
    whiten: bool = False
    objective: Literal["clip", "cispo", "policy-gradient"] = "clip"
    ratio: Literal["token", "sequence"] = "token"
    clip_low: float | None = 0.2
    clip_high: float = 0.2
    aggregation: str = "seq-mean-token-mean"
    kl_coefficient: float = 0.0
    kl_kind: Literal["k1", "k2", "k3"] = "k3"
    kl_place: Literal["loss", "reward"] = "loss"
    kl_ratio: bool = False
    silent_groups: Literal["count", "exclude"] = "count"
    dynamic_sampling: bool = False
    max_rounds: int = 8
    overlong_buffer: int = 0
    overlong_penalty: float = 1.0
    mask_truncated: bool = False
    importance_cap: float | None = None
    old_logprobs: Literal["sampler", "trainer"] | None = None
    epochs: int = 1
    minibatches: int = 1
    micro_tokens: int | None = None
    micro_rows: int | None = None
    sampler_dtype: Literal["bfloat16"] | None = None
    release_engine: bool = False
    learning_rate: float = 1e-3
    decay: bool = True
    warmup: int = 5
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0

    def __post_init__(self) -> None:
        for name in ("updates", "prompts", "group_size", "max_new_tokens", "max_rounds"):
            check_number(name, getattr(self, name), 1)
        for name in ("epochs", "minibatches"):
            check_number(name, getattr(self, name), 1)
        for name in ("temperature", "learning_rate"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in ("kl_coefficient", "overlong_penalty", "weight_decay", "warmup", "clip_high"):
            check_number(name, getattr(self, name), 0.0)
        for name in ("importance_cap", "max_grad_norm"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, open_low=True)
        check_micro(self.micro_tokens, self.micro_rows)
        check_number("overlong_buffer", self.overlong_buffer, 0, self.max_new_tokens)
        check_choice("advantage", self.advantage, ("group", "return"))
        check_choice("baseline", self.baseline, ("mean", "leave-one-out"))
        check_choice("scale", self.scale, ("std", "batch", None))
        check_choice("objective", self.objective, ("clip", "cispo", "policy-gradient"))
        check_choice("ratio", self.ratio, ("token", "sequence"))
        check_choice("aggregation", self.aggregation, AGGREGATION_MODES)
        check_choice("kl_kind", self.kl_kind, ("k1", "k2", "k3"))
        check_choice("kl_place", self.kl_place, ("loss", "reward"))
        check_choice("silent_groups", self.silent_groups, ("count", "exclude"))
        check_choice("old_logprobs", self.old_logprobs, ("sampler", "trainer", None))
        check_choice("sampler_dtype", self.sampler_dtype, ("bfloat16", None))
        self._check_together()

    def _check_together(self) -> None:
        if self.clip_low is not None:
            check_number("clip_low", self.clip_low, 0.0, 1.0)
        elif self.objective == "clip":
            raise ValueError("clip_low: None (no lower bound) is for objective='cispo' only")
        if self.group_size == 1 and self.advantage == "group":
            raise ValueError(
                f"group_size is 1: advantage='group' (baseline {self.baseline!r}, scale "
                f"{self.scale!r}) compares a completion with others of its prompt, and there are "
                "none; use at least 2, or advantage='return'"
            )
        if self.group_size == 1 and (self.dynamic_sampling or self.silent_groups == "exclude"):
            raise ValueError(
                "group_size is 1: every group then has equal rewards, and dynamic_sampling or "
                "silent_groups='exclude' would leave nothing to learn from"
            )
        if self.objective == "policy-gradient" and self.epochs * self.minibatches > 1:
            raise ValueError(
                "objective='policy-gradient' has no ratio to correct a second gradient step on one "
                f"batch; got epochs={self.epochs}, minibatches={self.minibatches}"
            )
        if self.ratio == "sequence" and self.objective != "clip":
            raise ValueError(f"ratio='sequence' is for objective='clip'; got {self.objective!r}")
        if self.old_logprobs == "sampler" and self.importance_cap is not None:
            raise ValueError(
                "old_logprobs='sampler' leaves nothing to weight: importance_cap weights the "
                "trainer's old log-probabilities against the sampler's; take 'trainer' (or None), "
                "or importance_cap=None"
            )
        if self.kl_ratio and (not self.kl_coefficient or self.kl_place != "loss"):
            raise ValueError("kl_ratio acts on a KL in the loss: set kl_coefficient above 0 there")

    @property
    def recomputes_old(self) -> bool:
        """Whether the old log-probabilities are the trainer's own."""
        return self.importance_cap is not None or self.old_logprobs == "trainer"
