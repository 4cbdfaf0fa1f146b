# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""TRL: its helpers, and the loss methods of its trainers called with a stand-in for the trainer.

The methods are private; `package` is pinned exactly where this adapter is tested. Group advantages
are computed in the middle of a trainer's generation step, so a real trainer with a tiny model runs
that step and a reward function returns the rewards of the case.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl import DPOTrainer, GRPOTrainer, RewardTrainer
from trl.trainer.utils import entropy_from_logits, selective_log_softmax

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.adapters._elements import each
from bookkit.conformance.adapters._trl_batch import scored_advantages

LOSS_TYPES = {
    "token-mean": "dapo",
    "seq-mean-token-mean": "grpo",
    "seq-mean-token-sum": "luspo",
    "seq-mean-token-sum-norm": "dr_grpo",
}


def stand_in(**settings: Any) -> Any:
    """What the loss methods read of their trainer: one process, no accumulation, no extras."""
    accelerator = SimpleNamespace(
        num_processes=1,
        device=torch.device("cpu"),
        gather=lambda x: x,
        gather_for_metrics=lambda x: x,
        reduce=lambda x, reduction="sum": x,
    )
    return SimpleNamespace(
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list)},
        aux_loss_enabled=False,
        _total_train_tokens=0,
        _tp_size=1,
        **settings,
    )


def grpo_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    loss_type: str,
    level: str = "token",
    low: float = 0.2,
    high: float = 0.2,
    beta: float = 0.0,
    ref_logp: Tensor | None = None,
    bias_correction: bool = False,
    max_tokens: int = 1,
    total_tokens: int | None = None,
) -> Tensor:
    """`GRPOTrainer._compute_loss` on log-probabilities instead of a model. All (B,T)."""
    trainer = stand_in(
        args=SimpleNamespace(
            delta=None, use_bias_correction_kl=bias_correction, steps_per_generation=1
        ),
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon_low=low,
        epsilon_high=high,
        beta=beta,
        max_completion_length=max_tokens,
        current_gradient_accumulation_steps=1,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, torch.zeros_like(logp), None),
    )
    ids = torch.zeros(logp.shape, dtype=torch.long)
    counted = mask.sum() if total_tokens is None else torch.tensor(float(total_tokens))
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": advantages,
        "old_per_token_logps": old_logp,
        "ref_per_token_logps": ref_logp,
        "num_items_in_batch": counted,
    }
    return GRPOTrainer._compute_loss(trainer, None, inputs)


class TrlAdapter(Adapter):
    """TRL's GRPO, DPO and reward-model losses, and its log-probability helpers."""

    name = "trl"
    package = "trl"
    sources = {  # noqa: RUF012
        "token_logprobs": "trl.trainer.utils.selective_log_softmax",
        "entropy": "trl.trainer.utils.entropy_from_logits",
        "group_advantages": "GRPOTrainer._generate_and_score_completions",
        "leave_one_out": "RLOOTrainer._generate_and_score_completions",
        "kl": "GRPOTrainer._compute_loss (beta = 1, advantage 0)",
        "ppo_loss": "GRPOTrainer._compute_loss (loss_type='grpo')",
        "gspo_loss": "GRPOTrainer._compute_loss (importance_sampling_level='sequence')",
        "cispo_loss": "GRPOTrainer._compute_loss (loss_type='cispo')",
        "aggregate": "GRPOTrainer._compute_loss (loss_type dapo, grpo, luspo, dr_grpo)",
        "preference_loss": "DPOTrainer._compute_loss",
        "reward_model_loss": "RewardTrainer.compute_loss",
    }

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        return selective_log_softmax(logits, tokens, temperature=temperature)

    def entropy(self, logits: Tensor) -> Tensor:
        return entropy_from_logits(logits)

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        return scored_advantages("GRPO", rewards, group_size)

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        return scored_advantages("RLOO", rewards, group_size)

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        if kind != "k3":
            raise NotProvided(f"{kind} as a loss: GRPO has k3 only")

        def one(p: Tensor, r: Tensor) -> Tensor:
            zero, mask = torch.zeros_like(p), torch.ones_like(p)
            return grpo_loss(
                p[None], p.detach()[None], zero[None], mask[None],
                loss_type="grpo", beta=1.0, ref_logp=r[None],
            )  # fmt: skip

        return each(one, logp.reshape(-1), ref_logp.reshape(-1)).reshape(logp.shape)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return grpo_loss(p[None], o[None], a[None], mask, loss_type="grpo")

        return each(one, logp, old_logp, advantages)

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        return grpo_loss(
            logp, old_logp, advantages, mask, loss_type="grpo", level="sequence", high=1.0
        )

    def cispo_loss(
        self, logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float
    ) -> Tensor:
        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return grpo_loss(p[None], o[None], a[None], mask, loss_type="cispo", low=low, high=high)

        return each(one, logp, old_logp, advantages)

    def aggregate(
        self,
        per_token: Tensor,
        mask: Tensor,
        mode: str,
        max_tokens: int,
        total_tokens: int | None = None,
        total_sequences: int | None = None,
    ) -> Tensor:
        if total_sequences is not None and mode != "token-mean":
            raise NotProvided("a global number of sequences: micro-batches have equal sizes")
        zero = torch.zeros_like(per_token)
        return grpo_loss(
            zero, zero, -per_token, mask,
            loss_type=LOSS_TYPES[mode], max_tokens=max_tokens, total_tokens=total_tokens,
        )  # fmt: skip

    def preference_loss(
        self,
        chosen_logp: Tensor,
        rejected_logp: Tensor,
        ref_chosen_logp: Tensor,
        ref_rejected_logp: Tensor,
        chosen_tokens: Tensor,
        rejected_tokens: Tensor,
        beta: float,
        kind: str,
        label_smoothing: float,
    ) -> Tensor:
        trainer = stand_in(
            ld_alpha=None,
            precompute_ref_logps=True,
            f_divergence_type="reverse_kl",
            loss_types=[kind],
            loss_weights=[1.0],
            label_smoothing=label_smoothing,
            beta=beta,
            use_weighting=False,
        )

        def one(*row: Tensor) -> Tensor:
            chosen, rejected, ref_chosen, ref_rejected, chosen_count, rejected_count = row
            counts = torch.cat([chosen_count, rejected_count])
            width = int(counts.max()) + 1
            completion = torch.arange(width) < (counts + 1)[:, None]
            completion[:, 0] = False  # the prompt's one token
            sums = torch.cat([chosen, rejected])
            log_probs = (sums / counts)[:, None] * completion[:, 1:]
            shown = SimpleNamespace(
                log_probs=log_probs,
                entropy=torch.zeros_like(log_probs),
                mean_logits=torch.zeros_like(log_probs),
                is_top1=torch.zeros_like(log_probs, dtype=torch.bool),
            )
            inputs = {
                "input_ids": torch.zeros(completion.shape, dtype=torch.long),
                "attention_mask": torch.ones(completion.shape),
                "completion_mask": completion.to(sums.dtype),
                "ref_chosen_logps": ref_chosen,
                "ref_rejected_logps": ref_rejected,
            }
            return DPOTrainer._compute_loss(trainer, lambda **_: shown, inputs, False)

        return each(
            one,
            chosen_logp,
            rejected_logp,
            ref_chosen_logp,
            ref_rejected_logp,
            chosen_tokens,
            rejected_tokens,
        )

    def reward_model_loss(self, chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
        trainer = stand_in(args=SimpleNamespace(center_rewards_coefficient=None))

        def one(*row: Tensor) -> Tensor:
            scores = SimpleNamespace(logits=torch.cat(row[:2])[:, None])
            inputs: dict[str, Any] = {"attention_mask": torch.ones(2, 1)}
            if len(row) == 3:
                inputs["margin"] = row[2]
            return RewardTrainer.compute_loss(trainer, lambda **_: scores, inputs)

        return each(one, chosen, rejected, *(() if margin is None else (margin,)))
