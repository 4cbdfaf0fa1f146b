# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""verl: the functions of its core algorithms."""

import torch
from torch import Tensor
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.utils import torch_functional
from verl.workers.config import ActorConfig

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.adapters._elements import each, of_outcomes


def actor_config(low: float = 0.2, high: float = 0.2) -> ActorConfig:
    """verl's own defaults apart from the clip range."""
    return ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio=low,
        clip_ratio_low=low,
        clip_ratio_high=high,
    )


class VerlAdapter(Adapter):
    """verl's advantage estimators, losses, KL penalties and rollout correction."""

    name = "verl"
    package = "verl"
    sources = {  # noqa: RUF012
        "token_logprobs": "verl.utils.torch_functional.logprobs_from_logits",
        "entropy": "verl.utils.torch_functional.entropy_from_logits",
        "masked_mean": "verl.utils.torch_functional.masked_mean",
        "whiten": "verl.utils.torch_functional.masked_whiten",
        "token_gae": "core_algos.compute_gae_advantage_return",
        "discounted_returns": "core_algos.compute_reinforce_plus_plus_outcome_advantage",
        "group_advantages": "core_algos.compute_grpo_outcome_advantage",
        "leave_one_out": "core_algos.compute_rloo_outcome_advantage",
        "kl": "core_algos.kl_penalty",
        "ppo_loss": "core_algos.compute_policy_loss_vanilla",
        "gspo_loss": "core_algos.compute_policy_loss_gspo",
        "cispo_loss": "core_algos.compute_policy_loss_cispo",
        "aggregate": "core_algos.agg_loss",
        "value_loss": "core_algos.compute_value_loss",
        "importance_weights": "rollout_corr_helper.compute_rollout_correction_weights",
        "completion_mask": "verl.utils.torch_functional.get_response_mask",
    }

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        if temperature != 1.0:
            raise NotProvided("temperature: the actor divides the logits before the call")
        return torch_functional.logprobs_from_logits(logits, tokens)

    def entropy(self, logits: Tensor) -> Tensor:
        return torch_functional.entropy_from_logits(logits)

    def masked_mean(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch_functional.masked_mean(x, mask)

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch_functional.masked_whiten(x, mask)

    def token_gae(
        self, rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
    ) -> Tensor:
        _, returns = core_algos.compute_gae_advantage_return(rewards, values, mask, gamma, lam)
        return returns - values  # its first result is whitened

    def discounted_returns(self, rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
        config = core_algos.AlgoConfig(gamma=gamma)
        return core_algos.compute_reinforce_plus_plus_outcome_advantage(
            rewards, mask, config=config
        )[1]

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        return of_outcomes(core_algos.compute_grpo_outcome_advantage, rewards, group_size)

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        return of_outcomes(core_algos.compute_rloo_outcome_advantage, rewards, group_size)

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        return core_algos.kl_penalty(logp, ref_logp, kind)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        config = actor_config()

        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return core_algos.compute_policy_loss_vanilla(
                o[None], p[None], a[None], mask, config=config
            )[0]

        return each(one, logp, old_logp, advantages)

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        wide = advantages.expand_as(logp)
        config = actor_config(0.2, 1.0)
        return core_algos.compute_policy_loss_gspo(
            old_logp, logp, wide, mask, loss_agg_mode="seq-mean-token-mean", config=config
        )[0]

    def cispo_loss(
        self, logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float
    ) -> Tensor:
        config = actor_config(low, high)

        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return core_algos.compute_policy_loss_cispo(
                o[None], p[None], a[None], mask, config=config
            )[0]

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
        return core_algos.agg_loss(
            per_token,
            mask,
            mode,
            batch_num_tokens=total_tokens,
            global_batch_size=total_sequences,
            loss_scale_factor=max_tokens,
        )

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        if clip is None:
            raise NotProvided("a value loss without a clip")

        def one(v: Tensor, r: Tensor, o: Tensor) -> Tensor:
            mask = torch.ones_like(v[None])
            return core_algos.compute_value_loss(v[None], r[None], o[None], mask, clip)[0]

        return each(one, values, returns, old_values)

    def importance_weights(
        self,
        train_logp: Tensor,
        rollout_logp: Tensor,
        mask: Tensor,
        mode: str,
        level: str,
        low: float | None,
        high: float | None,
    ) -> Tensor:
        if level == "geometric":
            raise NotProvided("geometric weights: a separate rejection mask instead")
        threshold = high if mode == "truncate" else f"{low}_{high}"
        return compute_rollout_correction_weights(
            train_logp - rollout_logp, mask, rollout_is=level, rollout_is_threshold=threshold
        )[0]

    def completion_mask(self, ids: Tensor, eos_ids: list[int]) -> Tensor:
        return torch_functional.get_response_mask(ids, eos_ids)
