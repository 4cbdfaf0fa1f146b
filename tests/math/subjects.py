"""Every public function of the mathematics as one table, for the tests of properties they share.

A subject takes float tensors of one shape (B,T) or (B,), and a mask of that shape where it has one.
Which of them are differentiable is part of the table, so that a property test cannot skip one
without saying so.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit.advantages import discounted_returns, gae, group_advantages, token_gae, whiten
from nbkit.kl import kl_estimate, kl_exact
from nbkit.logprobs import entropy, next_token_logprobs, token_logprobs
from nbkit.losses import (
    cispo_loss,
    importance_weights,
    policy_gradient_loss,
    ppo_clip_loss,
    preference_loss,
    reward_model_loss,
    simpo_loss,
    value_loss,
)
from nbkit.masks import AGGREGATION_MODES, aggregate, masked_mean
from nbkit.off_policy import decoupled_ppo_loss


@dataclass(frozen=True)
class Subject:
    """`call(*tensors, mask)` over tensors that share one shape; `grads` are differentiable."""

    name: str
    call: Callable[..., Tensor]
    inputs: int
    grads: tuple[int, ...] = ()
    reduces: bool = False  # to fewer numbers than rows: permuting rows leaves it alone

    def __str__(self) -> str:
        return self.name


def _gae(which: int) -> Callable[..., Tensor]:
    def call(rewards: Tensor, values: Tensor, next_values: Tensor, mask: Tensor) -> Tensor:
        steps = torch.arange(rewards.shape[1])
        terminated, done = (steps % 5 == 3).expand_as(mask), (steps % 5 >= 3).expand_as(mask)
        flags = (terminated.T, done.T)
        out = gae(
            rewards.T, values.T, next_values.T, *flags, gamma=0.9, lam=0.8, valid=mask.T
        )  # fmt: skip
        return out[which].T

    return call


PER_TOKEN = [
    Subject("policy_gradient_loss", lambda p, a, m: policy_gradient_loss(p, a, mask=m), 2, (0,)),
    *(
        Subject(
            f"ppo_clip_loss {options}",
            lambda p, o, a, m, options=options: ppo_clip_loss(p, o, a, mask=m, **options),
            3,
            (0,),
        )
        for options in (
            {},
            {"clip_low": 0.1, "clip_high": 0.28},
            {"dual_clip": 3.0},
            {"ratio": "sequence"},
            {"ratio": "sequence", "dual_clip": 2.0},
            {"log_ratio_clamp": None},
        )
    ),
    *(
        Subject(
            f"cispo_loss {options}",
            lambda p, o, a, m, options=options: cispo_loss(p, o, a, mask=m, **options),
            3,
            (0,),
        )
        for options in (
            {"clip_low": 0.2, "clip_high": 0.28},
            {"clip_low": None, "clip_high": 5.0, "bounds": "absolute"},
        )
    ),
    *(
        Subject(
            f"decoupled_ppo_loss {options}",
            lambda p, q, b, a, m, options=options: decoupled_ppo_loss(
                p, q, b, a, mask=m, **options
            ),
            4,
            (0,),
        )
        for options in ({}, {"cap": 1.5, "clip_low": 0.1, "clip_high": 0.28})
    ),
    Subject("value_loss", lambda v, r, m: value_loss(v, r, mask=m), 2, (0,)),
    *(
        Subject(
            f"value_loss clipped {form}",
            lambda v, r, o, m, form=form: value_loss(
                v, r, old_values=o, clip=0.2, form=form, mask=m
            ),
            3,
            (0,),
        )
        for form in ("max", "clipped")
    ),
    *(
        Subject(
            f"kl_estimate {kind}",
            lambda p, r, m, kind=kind: kl_estimate(p, r, kind, mask=m),
            2,
            (0, 1),
        )
        for kind in ("k1", "k2", "k3")
    ),
    *(
        Subject(
            f"importance_weights {level} {mode}",
            lambda p, o, m, level=level, mode=mode: importance_weights(
                p, o, m, level=level, mode=mode, low=0.5
            ),
            2,
        )
        for level in ("token", "sequence", "geometric")
        for mode in ("truncate", "mask")
    ),
    Subject("discounted_returns", lambda r, m: discounted_returns(r, 0.9, mask=m), 1, (0,)),
    Subject("gae advantages", _gae(0), 3, (0, 1, 2)),
    Subject("gae returns", _gae(1), 3, (0, 1, 2)),
    Subject(
        "token_gae advantages",
        lambda r, v, m: token_gae(r, v, m, gamma=0.9, lam=0.8)[0],
        2,
        (0, 1),
    ),
    Subject(
        "token_gae returns",
        lambda r, v, m: token_gae(r, v, m, gamma=0.9, lam=0.8)[1],
        2,
        (0, 1),
    ),
    *(
        Subject(f"whiten {options}", lambda x, m, options=options: whiten(x, m, **options), 1, (0,))
        for options in (
            {},
            {"ddof": 0, "eps_place": "var"},
            {"center": False},
            {"eps_place": "clamp-var", "eps": 0.1},
            {"moments": (10, 0.5, 2.0)},
        )
    ),
]

REDUCED = [
    Subject("masked_mean", masked_mean, 1, (0,), reduces=True),
    *(
        Subject(
            f"aggregate {mode} {empty_rows}",
            lambda x, m, mode=mode, empty_rows=empty_rows: aggregate(
                x, m, mode, max_tokens=16, empty_rows=empty_rows
            ),
            1,
            (0,),
            reduces=True,
        )
        for mode in AGGREGATION_MODES
        for empty_rows in ("count", "exclude")
    ),
]

PER_GROUP = [
    Subject(
        f"group_advantages {baseline} {scale}",
        lambda r, m, baseline=baseline, scale=scale: group_advantages(
            r.reshape(-1), r.shape[1], baseline=baseline, scale=scale, valid=m.reshape(-1)
        ).reshape(r.shape),
        1,
        (0,),
    )
    for baseline in ("mean", "leave-one-out")
    for scale in ("std", "batch", None)
]

# Functions of whole rows without a mask: (B,T) in, used column by column as (B,).
PER_ROW = [
    *(
        Subject(
            f"preference_loss {kind} {smoothing}",
            lambda c, r, rc, rr, kind=kind, smoothing=smoothing: preference_loss(
                c,
                r,
                rc,
                rr,
                beta=0.3,
                kind=kind,
                label_smoothing=smoothing,
                chosen_tokens=torch.full_like(c, 3, dtype=torch.long),
                rejected_tokens=torch.full_like(c, 2, dtype=torch.long),
            ),
            4,
            (0, 1, 2, 3),
        )
        for kind, smoothing in (
            ("sigmoid", 0.0),
            ("sigmoid", 0.1),
            ("robust", 0.1),
            ("hinge", 0.0),
            ("ipo", 0.0),
            ("ipo-average", 0.0),
        )
    ),
    Subject(
        "simpo_loss",
        lambda c, r: simpo_loss(
            c,
            r,
            torch.full_like(c, 3, dtype=torch.long),
            torch.full_like(c, 2, dtype=torch.long),
            beta=2.0,
            margin=0.5,
        ),
        2,
        (0, 1),
    ),
    Subject("reward_model_loss", reward_model_loss, 2, (0, 1)),
    Subject(
        "reward_model_loss margin",
        lambda c, r: reward_model_loss(c, r, margin=0.3, centre_coefficient=0.01),
        2,
        (0, 1),
    ),
]

# Functions of logits (B,T,V).
TOKENS = torch.tensor([[0, 2, 1, 4, 3, 1], [3, 3, 0, 2, 1, 4], [4, 0, 1, 2, 2, 3]])
OF_LOGITS = [
    *(
        Subject(
            f"token_logprobs T={temperature}",
            lambda x, temperature=temperature: token_logprobs(x, TOKENS, temperature=temperature),
            1,
            (0,),
        )
        for temperature in (1.0, 0.7)
    ),
    Subject("next_token_logprobs", lambda x: next_token_logprobs(x, TOKENS), 1, (0,)),
    *(
        Subject(
            f"entropy T={temperature}",
            lambda x, temperature=temperature: entropy(x, temperature=temperature),
            1,
            (0,),
        )
        for temperature in (1.0, 0.7)
    ),
    Subject("kl_exact", lambda x, r: kl_exact(x, r), 2, (0, 1)),
]
