# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""OpenRLHF: its loss modules, its KL estimators, and the advantage step of its experience maker.

Its modules import flash-attn and vLLM, which need a GPU, at import time; none of the functions
called here uses them. Where they are absent, empty modules stand in for the import.
"""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.adapters._elements import each


class _Absent(ModuleType):
    """A module whose every attribute exists and does nothing."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _stand_in_for_gpu_packages() -> None:
    """Let `import flash_attn` and `import vllm` succeed where they are not installed."""
    for name in ("flash_attn", "vllm"):
        if importlib.util.find_spec(name) is None:
            sys.meta_path.append(_AbsentFinder(name))


class _AbsentFinder:
    """Answers the import of one absent package and all below it."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name != self.package and not name.startswith(self.package + "."):
            return None
        if name.startswith("flash_attn.ops"):
            return None  # optional there: its absence selects the plain torch path
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


_stand_in_for_gpu_packages()

from openrlhf.models import loss as losses  # noqa: E402
from openrlhf.models import utils  # noqa: E402
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker  # noqa: E402


def advantage_step(
    *,
    estimator: str,
    rewards: Tensor,
    mask: Tensor,
    group_size: int = 1,
    gamma: float = 1.0,
    kl: Tensor | None = None,
) -> Experience:
    """`RemoteExperienceMaker.compute_advantages_and_returns` on one batch. rewards (B,)."""
    advantage = SimpleNamespace(estimator=estimator, gamma=gamma, lambd=1.0, no_std_norm=False)
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=advantage),
        rollout=SimpleNamespace(n_samples_per_prompt=group_size),
        reward=SimpleNamespace(
            clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None
        ),
    )
    maker = SimpleNamespace(
        strategy=SimpleNamespace(args=args),
        advantage_estimator=estimator,
        kl_ctl=SimpleNamespace(value=0.0 if kl is None else 1.0),
    )
    for method in ("get_advantages_and_returns", "get_cumulative_returns"):
        setattr(maker, method, getattr(RemoteExperienceMaker, method).__get__(maker))
    experience = Experience(
        index=list(range(len(rewards))),
        rewards=rewards.clone(),
        kl=torch.zeros_like(mask) if kl is None else kl,
        action_mask=mask,
        info={},
    )
    RemoteExperienceMaker.compute_advantages_and_returns(maker, [experience])
    return experience


class OpenRlhfAdapter(Adapter):
    """OpenRLHF's losses and advantages."""

    name = "openrlhf"
    package = "openrlhf"
    sources = {  # noqa: RUF012
        "token_logprobs": "openrlhf.models.utils.log_probs_from_logits",
        "entropy": "openrlhf.models.utils.compute_entropy",
        "masked_mean": "openrlhf.models.utils.masked_mean",
        "whiten": "RemoteExperienceMaker.compute_advantages_and_returns (reinforce)",
        "token_gae": "RemoteExperienceMaker.get_advantages_and_returns",
        "discounted_returns": "RemoteExperienceMaker.get_cumulative_returns",
        "group_advantages": "RemoteExperienceMaker.compute_advantages_and_returns (group_norm)",
        "leave_one_out": "RemoteExperienceMaker.compute_advantages_and_returns (rloo)",
        "kl": "openrlhf.models.utils.compute_approx_kl",
        "ppo_loss": "openrlhf.models.loss.PolicyLoss",
        "gspo_loss": "openrlhf.models.loss.PolicyLoss (gspo)",
        "aggregate": "openrlhf.models.loss.aggregate_loss",
        "value_loss": "openrlhf.models.loss.ValueLoss",
        "preference_loss": "openrlhf.models.loss.DPOLoss",
        "reward_model_loss": "openrlhf.models.loss.PairWiseLoss",
        "importance_weights": "openrlhf.models.loss.PolicyLoss (is_correction)",
        "place_sequence_reward": "openrlhf.models.utils.compute_reward",
    }

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        return utils.log_probs_from_logits(logits.clone(), tokens, temperature)  # in place

    def entropy(self, logits: Tensor) -> Tensor:
        with torch.compiler.set_stance("force_eager"):
            return utils.compute_entropy(logits)

    def masked_mean(self, x: Tensor, mask: Tensor) -> Tensor:
        return utils.masked_mean(x, mask)

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        # A reward a token comes in as a KL penalty of its negative; gamma 0 leaves it alone.
        done = advantage_step(
            estimator="reinforce", rewards=x.new_zeros(len(x)), mask=mask, gamma=0.0, kl=-x
        )
        return done.advantages

    def token_gae(
        self, rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
    ) -> Tensor:
        return RemoteExperienceMaker.get_advantages_and_returns(
            None, values, rewards, mask, gamma, lam
        )[0]

    def discounted_returns(self, rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
        return RemoteExperienceMaker.get_cumulative_returns(None, rewards, mask, gamma)

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        mask = torch.ones_like(rewards)[:, None]
        done = advantage_step(
            estimator="group_norm", rewards=rewards, mask=mask, group_size=group_size
        )
        return done.advantages[:, 0]

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        mask = torch.ones_like(rewards)[:, None]
        done = advantage_step(estimator="rloo", rewards=rewards, mask=mask, group_size=group_size)
        return done.advantages[:, 0]

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        return utils.compute_approx_kl(logp, ref_logp, kl_estimator=kind)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        loss = losses.PolicyLoss()

        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            return loss(p[None], o[None], a[None], torch.ones_like(p[None]))[0]

        return each(one, logp, old_logp, advantages)

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        loss = losses.PolicyLoss(clip_eps_high=1.0, policy_loss_type="gspo")
        return loss(logp, old_logp, advantages, mask)[0]

    def aggregate(
        self,
        per_token: Tensor,
        mask: Tensor,
        mode: str,
        max_tokens: int,
        total_tokens: int | None = None,
        total_sequences: int | None = None,
    ) -> Tensor:
        if mode not in ("token-mean", "seq-mean-token-mean"):
            raise NotProvided(f"aggregation {mode}")
        return losses.aggregate_loss(
            per_token,
            mask,
            token_level_loss=mode == "token-mean",
            batch_num_tokens=total_tokens,
            global_batch_size=total_sequences,
        )

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        loss = losses.ValueLoss(clip_eps=clip)

        def one(v: Tensor, r: Tensor, o: Tensor) -> Tensor:
            return loss(v[None], o[None], r[None], torch.ones_like(v[None]))

        return each(one, values, returns, old_values)

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
        if kind not in ("sigmoid", "ipo"):
            raise NotProvided(f"preference loss {kind}")
        loss = losses.DPOLoss(beta, label_smoothing, ipo=kind == "ipo")
        return each(
            lambda *row: loss(*row)[0],
            chosen_logp,
            rejected_logp,
            ref_chosen_logp,
            ref_rejected_logp,
        )

    def reward_model_loss(self, chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
        loss = losses.PairWiseLoss()
        if margin is None:
            return each(loss, chosen, rejected)
        return each(loss, chosen, rejected, margin)

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
        if level == "sequence":
            raise NotProvided("the product over a sequence")
        loss = losses.PolicyLoss(
            is_correction_level="token" if level == "token" else "seq",
            is_correction_mode="clip" if mode == "truncate" else "mask",
            is_correction_threshold=[low or 0.0, high],
        )
        # With a ratio of 1 the loss is -mean(weight * advantage).
        advantages = torch.zeros_like(train_logp, requires_grad=True)
        value = loss(train_logp, train_logp, advantages, mask, rollout_log_probs=rollout_logp)[0]
        (slope,) = torch.autograd.grad(value, advantages)
        return -slope * mask.sum()

    def place_sequence_reward(self, rewards: Tensor, mask: Tensor) -> Tensor:
        return utils.compute_reward(rewards, 0.0, torch.zeros_like(mask), mask)
