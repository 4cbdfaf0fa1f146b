# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""SkyRL: the functions of its PPO utilities."""

import sys
import typing
from types import SimpleNamespace

import torch
import typing_extensions
from torch import Tensor

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.adapters._elements import each, of_outcomes

if sys.version_info < (3, 12):
    # Its configuration uses typing.TypedDict, which pydantic takes from Python 3.12 on only.
    typing.TypedDict = typing_extensions.TypedDict

from skyrl.backends.skyrl_train.utils import off_policy_correction_utils as off_policy
from skyrl.backends.skyrl_train.utils import ppo_utils, torch_utils

REDUCTIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum-norm": "seq_mean_token_sum_norm",
}


def config(**settings: object) -> SimpleNamespace:
    """The settings that the loss functions read, with SkyRL's names."""
    return SimpleNamespace(
        **{
            "policy_loss_type": "regular",
            "eps_clip_low": 0.2,
            "eps_clip_high": 0.2,
            "loss_reduction": "sequence_mean",
            "off_policy_correction": None,
            "value_clip": None,
            **settings,
        }
    )


class SkyRlAdapter(Adapter):
    """SkyRL's advantage estimators, losses and off-policy correction."""

    name = "skyrl"
    package = "skyrl"
    sources = {  # noqa: RUF012
        "token_logprobs": "torch_utils.logprobs_from_logits",
        "entropy": "torch_utils.chunked_entropy_from_logits",
        "masked_mean": "torch_utils.masked_mean",
        "whiten": "ppo_utils.masked_whiten",
        "token_gae": "ppo_utils.compute_gae_advantage_return",
        "discounted_returns": "ppo_utils.compute_reinforce_plus_plus_outcome_advantage",
        "group_advantages": "ppo_utils.compute_grpo_outcome_advantage",
        "leave_one_out": "ppo_utils.compute_rloo_outcome_advantage",
        "kl": "ppo_utils.compute_approx_kl",
        "ppo_loss": "ppo_utils.ppo_policy_loss",
        "gspo_loss": "ppo_utils.gspo_policy_loss",
        "cispo_loss": "ppo_utils.compute_policy_loss_cispo",
        "aggregate": "ppo_utils.apply_loss_reduction_to_advantages_minibatch",
        "value_loss": "ppo_utils.ppo_critic_loss",
        "importance_weights": "off_policy_correction_utils",
    }

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        if temperature != 1.0:
            raise NotProvided("temperature: the model wrapper divides the logits before the call")
        return torch_utils.logprobs_from_logits(logits, tokens)

    def entropy(self, logits: Tensor) -> Tensor:
        return torch_utils.chunked_entropy_from_logits(logits, requires_grad=True)

    def masked_mean(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch_utils.masked_mean(x, mask)

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        return ppo_utils.masked_whiten(x, mask)

    def token_gae(
        self, rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
    ) -> Tensor:
        _, returns = ppo_utils.compute_gae_advantage_return(rewards, values, mask, gamma, lam)
        return returns - values  # its first result is whitened

    def discounted_returns(self, rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
        return ppo_utils.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, gamma)[1]

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        return of_outcomes(ppo_utils.compute_grpo_outcome_advantage, rewards, group_size)

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        return of_outcomes(ppo_utils.compute_rloo_outcome_advantage, rewards, group_size)

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        return ppo_utils.compute_approx_kl(logp, ref_logp, kl_estimator_type=kind)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return ppo_utils.ppo_policy_loss(p[None], o[None], a[None], config(), mask)[0]

        return each(one, logp, old_logp, advantages)

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        scaled = self._scaled(advantages.expand_as(logp), mask, "seq-mean-token-mean", 1)
        settings = config(policy_loss_type="gspo", eps_clip_high=1.0)
        return ppo_utils.gspo_policy_loss(logp, old_logp, scaled, settings, mask)[0]

    def cispo_loss(
        self, logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float
    ) -> Tensor:
        bounds = SimpleNamespace(cispo_eps_clip_low=low, cispo_eps_clip_high=high)
        settings = config(policy_loss_type="cispo", cispo=bounds)

        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            mask = torch.ones_like(p[None])
            return ppo_utils.compute_policy_loss_cispo(p[None], o[None], a[None], settings, mask)[0]

        return each(one, logp, old_logp, advantages)

    def _scaled(self, advantages: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
        if mode not in REDUCTIONS:
            raise NotProvided(f"aggregation {mode}")
        return ppo_utils.apply_loss_reduction_to_advantages_minibatch(
            advantages, mask, REDUCTIONS[mode], len(mask), max_tokens
        )

    def aggregate(
        self,
        per_token: Tensor,
        mask: Tensor,
        mode: str,
        max_tokens: int,
        total_tokens: int | None = None,
        total_sequences: int | None = None,
    ) -> Tensor:
        if total_tokens is not None or total_sequences is not None:
            raise NotProvided("counts: it scales the advantages of the whole mini-batch beforehand")
        zero = torch.zeros_like(per_token)
        scaled = self._scaled(-per_token, mask, mode, max_tokens)
        return ppo_utils.ppo_policy_loss(zero, zero, scaled, config(), mask)[0]

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        def one(v: Tensor, r: Tensor, o: Tensor) -> Tensor:
            mask = torch.ones_like(v[None])
            return ppo_utils.ppo_critic_loss(
                v[None], o[None], r[None], config(value_clip=clip), mask
            )[0]

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
        limits = SimpleNamespace(
            token_tis_ratio_clip_high=high if mode == "truncate" else float("inf"),
            sequence_tis_ratio_clip_high=high,
            token_mask_is_threshold_low=low,
            token_mask_is_threshold_high=high,
            geo_mask_low=low,
            geo_mask_high=high,
        )
        logps = (train_logp, rollout_logp, mask)
        if mode == "truncate" and level != "geometric":
            weights = off_policy.compute_tis_ratio(*logps, level, limits)[0]
            return weights.expand_as(train_logp)
        if mode == "mask" and level == "token":
            kept = off_policy.compute_token_mask(*logps, limits)[0]
            return kept * off_policy.compute_tis_ratio(*logps, "token", limits)[0]
        if mode == "mask" and level == "geometric":
            kept = off_policy.compute_sequence_mask(*logps, "geometric", limits)[0]
            return kept.expand_as(train_logp).to(train_logp.dtype)
        raise NotProvided(f"{level} weights, {mode}")
