# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""nbkit itself, with its defaults."""

import torch
from torch import Tensor

from bookkit.conformance.adapter import Adapter
from nbkit import advantages, kl, logprobs, losses, masks


class OursAdapter(Adapter):
    """Every function that the kit asks for."""

    name = "ours"
    package = "nbkit"
    sources = {  # noqa: RUF012
        "token_logprobs": "nbkit.logprobs.token_logprobs",
        "entropy": "nbkit.logprobs.entropy",
        "masked_mean": "nbkit.masks.masked_mean",
        "whiten": "nbkit.advantages.whiten",
        "environment_gae": "nbkit.advantages.gae",
        "token_gae": "nbkit.advantages.token_gae",
        "discounted_returns": "nbkit.advantages.discounted_returns",
        "group_advantages": "nbkit.advantages.group_advantages",
        "leave_one_out": "nbkit.advantages.group_advantages",
        "kl": "nbkit.kl.kl_estimate",
        "ppo_loss": "nbkit.losses.ppo_clip_loss",
        "gspo_loss": "nbkit.losses.ppo_clip_loss",
        "cispo_loss": "nbkit.losses.cispo_loss",
        "aggregate": "nbkit.masks.aggregate",
        "value_loss": "nbkit.losses.value_loss",
        "preference_loss": "nbkit.losses.preference_loss",
        "reward_model_loss": "nbkit.losses.reward_model_loss",
        "importance_weights": "nbkit.losses.importance_weights",
        "place_sequence_reward": "nbkit.masks.place_sequence_reward",
        "completion_mask": "nbkit.masks.completion_mask",
    }

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        return logprobs.token_logprobs(logits, tokens, temperature=temperature)

    def entropy(self, logits: Tensor) -> Tensor:
        return logprobs.entropy(logits)

    def masked_mean(self, x: Tensor, mask: Tensor) -> Tensor:
        return masks.masked_mean(x, mask)

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        return advantages.whiten(x, mask)

    def environment_gae(
        self,
        rewards: Tensor,
        values: Tensor,
        next_values: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
        lam: float,
    ) -> Tensor:
        return advantages.gae(rewards, values, next_values, terminated, done, gamma=gamma, lam=lam)[
            0
        ]

    def token_gae(
        self, rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
    ) -> Tensor:
        return advantages.token_gae(rewards, values, mask, gamma=gamma, lam=lam)[0]

    def discounted_returns(self, rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
        return advantages.discounted_returns(rewards, gamma, mask=mask)

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        return advantages.group_advantages(rewards, group_size)

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        return advantages.group_advantages(
            rewards, group_size, baseline="leave-one-out", scale=None
        )

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        return kl.kl_estimate(logp, ref_logp, kind)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        return losses.ppo_clip_loss(logp, old_logp, advantages)

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        per_token = losses.ppo_clip_loss(
            logp, old_logp, advantages, mask=mask, ratio="sequence", clip_high=1.0
        )
        return masks.aggregate(per_token, mask, "seq-mean-token-mean")

    def cispo_loss(
        self, logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float
    ) -> Tensor:
        return losses.cispo_loss(logp, old_logp, advantages, clip_low=low, clip_high=high)

    def aggregate(
        self,
        per_token: Tensor,
        mask: Tensor,
        mode: str,
        max_tokens: int,
        total_tokens: int | None = None,
        total_sequences: int | None = None,
    ) -> Tensor:
        return masks.aggregate(
            per_token,
            mask,
            mode,
            max_tokens=max_tokens,
            total_tokens=total_tokens,
            total_sequences=total_sequences,
        )

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        return losses.value_loss(values, returns, old_values=old_values, clip=clip)

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
        return losses.preference_loss(
            chosen_logp,
            rejected_logp,
            ref_chosen_logp,
            ref_rejected_logp,
            beta=beta,
            kind=kind,
            label_smoothing=label_smoothing,
            chosen_tokens=chosen_tokens,
            rejected_tokens=rejected_tokens,
        )

    def reward_model_loss(self, chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
        return losses.reward_model_loss(chosen, rejected, margin=margin)

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
        return losses.importance_weights(
            train_logp, rollout_logp, mask, mode=mode, level=level, low=low, high=high
        )

    def place_sequence_reward(self, rewards: Tensor, mask: Tensor) -> Tensor:
        return masks.place_sequence_reward(rewards, mask)

    def completion_mask(self, ids: Tensor, eos_ids: list[int]) -> Tensor:
        return masks.completion_mask(ids, eos_ids)[0].to(torch.float64)
