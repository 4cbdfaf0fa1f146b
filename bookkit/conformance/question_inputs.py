"""The random inputs of the questions, and our own functions that are asked the same."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nbkit import advantages as adv
from nbkit import kl, losses, masks

Inputs = Callable[[torch.Generator], dict[str, Any]]


def normal(g: torch.Generator, *shape: int) -> Tensor:
    """Standard normal float64."""
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def padded_mask(g: torch.Generator, rows: int = 6, steps: int = 9) -> Tensor:
    """Responses of 2 to 9 tokens, padded on the right; float64 0/1 as the libraries hold it."""
    lengths = torch.randint(2, steps + 1, (rows, 1), generator=g)
    return (torch.arange(steps) < lengths).double()


def gapped_mask(g: torch.Generator, rows: int = 6, steps: int = 9) -> Tensor:
    """Multi-turn: some tokens inside a response do not count; the first and last do."""
    mask = (torch.rand(rows, steps, generator=g) < 0.6).double()
    mask[:, [0, -1]] = 1.0
    return mask


def _logits(g: torch.Generator, **more: Any) -> dict[str, Any]:
    return {"logits": 3 * normal(g, 4, 5, 11), **more}


def _tokens(temperature: float) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        tokens = torch.randint(0, 11, (4, 5), generator=g)
        return _logits(g, tokens=tokens, temperature=temperature)

    return inputs


def _masked(g: torch.Generator) -> dict[str, Any]:
    return {"x": normal(g, 6, 9), "mask": padded_mask(g)}


def _unmasked(g: torch.Generator) -> dict[str, Any]:
    return {"x": normal(g, 1, 40), "mask": torch.ones(1, 40, dtype=torch.float64)}


def _environment(g: torch.Generator) -> dict[str, Any]:
    rewards, values = normal(g, 64), normal(g, 64)
    done = torch.rand(64, generator=g) < 0.15
    terminated = done & (torch.rand(64, generator=g) < 0.5)
    following = torch.cat([values[1:], normal(g, 1)])
    next_values = torch.where(done, normal(g, 64), following)
    flags = {"terminated": terminated.double(), "done": done.double()}
    return {
        "rewards": rewards, "values": values, "next_values": next_values, **flags,
        "gamma": 0.97, "lam": 0.9,
    }  # fmt: skip


def _responses(make_mask: Callable[[torch.Generator], Tensor]) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        mask = make_mask(g)
        return {
            "rewards": normal(g, 6, 9) * mask,
            "values": normal(g, 6, 9) * (1 if make_mask is gapped_mask else mask),
            "mask": mask,
            "gamma": 0.95,
            "lam": 0.9,
        }

    return inputs


def _returns(make_mask: Callable[[torch.Generator], Tensor]) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        mask = make_mask(g)
        return {"rewards": normal(g, 6, 9) * mask, "mask": mask, "gamma": 0.9}

    return inputs


def _groups(g: torch.Generator) -> dict[str, Any]:
    return {"rewards": normal(g, 12), "group_size": 4}


def _pair(kind: str) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        logp = -normal(g, 5, 7).abs()
        return {"logp": logp, "ref_logp": logp + 0.5 * normal(g, 5, 7), "kind": kind}

    return inputs


def _policy(g: torch.Generator, **more: Any) -> dict[str, Any]:
    logp = -normal(g, 40).abs()
    return {"logp": logp, "old_logp": logp - normal(g, 40), "advantages": normal(g, 40), **more}


def _sequences(g: torch.Generator) -> dict[str, Any]:
    logp = -normal(g, 6, 9).abs()
    return {
        "logp": logp,
        "old_logp": logp - 0.5 * normal(g, 6, 9),
        "advantages": normal(g, 6, 1),
        "mask": padded_mask(g),
    }


def _aggregate(mode: str) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        mask = padded_mask(g)
        return {"per_token": normal(g, 6, 9), "mask": mask, "mode": mode, "max_tokens": 16}

    return inputs


def _values(clip: float | None) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        old = normal(g, 40)
        return {
            "values": old + normal(g, 40),
            "returns": old + normal(g, 40),
            "old_values": old,
            "clip": clip,
        }

    return inputs


def _preference(kind: str, smoothing: float) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        ref = -5 * normal(g, 2, 8).abs() - 10
        return {
            "chosen_logp": ref[0] + normal(g, 8),
            "rejected_logp": ref[1] + normal(g, 8),
            "ref_chosen_logp": ref[0],
            "ref_rejected_logp": ref[1],
            "chosen_tokens": torch.randint(1, 6, (8,), generator=g),
            "rejected_tokens": torch.randint(1, 6, (8,), generator=g),
            "beta": 0.3,
            "kind": kind,
            "label_smoothing": smoothing,
        }

    return inputs


def _weights(level: str, mode: str) -> Inputs:
    def inputs(g: torch.Generator) -> dict[str, Any]:
        train = -normal(g, 6, 9).abs()
        truncate = mode == "truncate"
        return {
            "train_logp": train,
            "rollout_logp": train - 0.4 * normal(g, 6, 9),
            "mask": padded_mask(g),
            "mode": mode,
            "level": level,
            "low": None if truncate else 0.8,
            "high": 2.0 if truncate else 1.2,
        }

    return inputs


def preference(**settings: Any) -> Callable[..., Tensor]:
    """`preference_loss` with settings over those of the question."""

    def call(
        chosen_logp: Tensor,
        rejected_logp: Tensor,
        ref_chosen_logp: Tensor,
        ref_rejected_logp: Tensor,
        **question: Any,
    ) -> Tensor:
        return losses.preference_loss(
            chosen_logp,
            rejected_logp,
            ref_chosen_logp,
            ref_rejected_logp,
            **{**question, **settings},
        )

    return call


def policy(**settings: Any) -> Callable[..., Tensor]:
    """`ppo_clip_loss` with settings."""
    return lambda logp, old_logp, advantages: losses.ppo_clip_loss(
        logp, old_logp, advantages, **settings
    )


def cispo(**settings: Any) -> Callable[..., Tensor]:
    """`cispo_loss` with settings over the bounds of the question."""

    def call(logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
        return losses.cispo_loss(
            logp, old_logp, advantages, **{"clip_low": low, "clip_high": high, **settings}
        )

    return call


def gspo(**settings: Any) -> Callable[..., Tensor]:
    """The mean of sequence means of the sequence-ratio loss, with settings."""

    def call(logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        per_token = losses.ppo_clip_loss(
            logp, old_logp, advantages, mask=mask, ratio="sequence", clip_high=1.0, **settings
        )
        return masks.aggregate(per_token, mask, "seq-mean-token-mean")

    return call


def group(**settings: Any) -> Callable[..., Tensor]:
    """`group_advantages` with settings."""
    return lambda rewards, group_size: adv.group_advantages(rewards, group_size, **settings)


def whitened(**settings: Any) -> Callable[..., Tensor]:
    """`whiten` with settings."""
    return lambda x, mask: adv.whiten(x, mask, **settings)


def divergence(**settings: Any) -> Callable[..., Tensor]:
    """`kl_estimate` with settings."""
    return lambda logp, ref_logp, kind: kl.kl_estimate(logp, ref_logp, kind, **settings)


def squared(**settings: Any) -> Callable[..., Tensor]:
    """`value_loss` with settings."""
    return lambda values, returns, old_values, clip: losses.value_loss(
        values, returns, old_values=old_values, clip=clip, **settings
    )


def aggregated(**settings: Any) -> Callable[..., Tensor]:
    """`aggregate` with settings."""
    return lambda per_token, mask, mode, max_tokens: masks.aggregate(
        per_token, mask, mode, max_tokens=max_tokens, **settings
    )


def environment_advantages(**x: Any) -> Tensor:
    """`gae` without its returns."""
    return adv.gae(**x)[0]
