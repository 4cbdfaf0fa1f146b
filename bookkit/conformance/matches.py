"""Which of our arguments reproduce which library, and where none does, why.

Only what differs from the defaults of `QUESTIONS` is listed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bookkit.conformance.questions import (
    Match,
    aggregated,
    cispo,
    divergence,
    group,
    policy,
    preference,
    squared,
    whitened,
)
from nbkit import advantages as adv
from nbkit import losses


@dataclass(frozen=True)
class Differs(Match):
    """No argument of ours reproduces it; the nearest call, and the reason."""

    reason: str = ""


def _mask_ignored(rewards: Tensor, values: Tensor, mask: Tensor, **rates: Any) -> Tensor:
    return adv.token_gae(rewards, values, None, **rates)[0]


def _mask_multiplied(rewards: Tensor, values: Tensor, mask: Tensor, **rates: Any) -> Tensor:
    return adv.token_gae(rewards * mask, values * mask, None, **rates)[0]


def _returns_unmasked(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return adv.discounted_returns(rewards * mask, gamma)


def _geometric_filter(weigh: bool) -> Callable[..., Tensor]:
    """The geometric mean decides which sequences stay; the tokens' own ratios weigh, or nothing."""

    def call(train_logp: Tensor, rollout_logp: Tensor, mask: Tensor, **settings: Any) -> Tensor:
        kept = losses.importance_weights(train_logp, rollout_logp, mask, **settings) > 0
        weights = losses.importance_weights(train_logp, rollout_logp, mask, high=None)
        return torch.where(kept, weights if weigh else 1.0, 0.0).to(train_logp.dtype)

    return call


SINGLE = "computes in float32 whatever it is given"
COUNT_EPS = "adds 1e-8 to the number of tokens"


def _noted(match: Match, note: str) -> Match:
    return replace(match, note=note)


def _default(note: str) -> Match:
    """Our defaults, with a note."""
    return Match(note=note)


def _unclamped(kind: str) -> Match:
    return Match(f'kl_estimate("{kind}", log_ratio_clamp=None)', divergence(log_ratio_clamp=None))


_BESSEL_IN_ROOT = Match('whiten(eps_place="var")', whitened(eps_place="var"))
_POPULATION = Match(
    'whiten(ddof=0, eps_place="clamp-var")', whitened(ddof=0, eps_place="clamp-var"), SINGLE
)
_EXCLUDED = Match('aggregate(…, empty_rows="exclude")', aggregated(empty_rows="exclude"))
_NO_CLAMP = Match("ppo_clip_loss(log_ratio_clamp=None)", policy(log_ratio_clamp=None))
_SB3_VALUES = Match('value_loss(form="clipped")', squared(form="clipped"))
_RAW_SINGLETON = Match(
    'group_advantages(eps=1e-6, singleton="keep")', group(eps=1e-6, singleton="keep")
)

MATCHES: dict[str, dict[str, Match]] = {
    "trl": {
        "group advantages": _default(SINGLE),
        "leave-one-out": _default(SINGLE),
        "k3": _unclamped("k3"),
        "PPO clip": _NO_CLAMP,
        "CISPO": Match(
            'cispo_loss(clip_low=None, clip_high=0.28, bounds="absolute", log_ratio_clamp=None)',
            cispo(clip_low=None, bounds="absolute", log_ratio_clamp=None),
        ),
        "preference, sigmoid, smoothed": Match(
            'preference_loss(kind="sigmoid", label_smoothing=0)', preference(label_smoothing=0.0)
        ),
        "preference, ipo": Match(
            'preference_loss(kind="ipo-average")', preference(kind="ipo-average")
        ),
    },
    "sb3": {
        "GAE, environments": _default("its rollout buffer is float32"),
        "PPO clip": _NO_CLAMP,
        "value loss": _SB3_VALUES,
        "value loss, clipped": _SB3_VALUES,
        "whitening": Match('whiten(singleton="keep")', whitened(singleton="keep")),
    },
    "torchrl": {"GAE, environments": _default("its discounts are float32")},
    "verl": {
        "masked mean": _default(COUNT_EPS),
        "whitening": _noted(_BESSEL_IN_ROOT, COUNT_EPS),
        "whitening, masked": _noted(_BESSEL_IN_ROOT, COUNT_EPS),
        "group advantages": _RAW_SINGLETON,
        "leave-one-out": Match(
            'group_advantages(baseline="leave-one-out", scale=None, singleton="keep")',
            group(baseline="leave-one-out", scale=None, singleton="keep"),
        ),
        "k2": _unclamped("k2"),
        "PPO clip": Match("ppo_clip_loss(dual_clip=3.0)", policy(dual_clip=3.0)),
        "GSPO": _default(COUNT_EPS),
        "aggregation, seq-mean-token-mean": _noted(_EXCLUDED, COUNT_EPS),
        "aggregation, seq-mean-token-sum": _EXCLUDED,
        "aggregation, seq-mean-token-sum-norm": _EXCLUDED,
    },
    "openrlhf": {
        "whitening": _POPULATION,
        "whitening, masked": _POPULATION,
        "GAE, tokens, with gaps": Match(
            "token_gae(rewards * m, values * m, None)", _mask_multiplied
        ),
        "reward-to-go, with gaps": Match("discounted_returns(rewards * m)", _returns_unmasked),
        "group advantages": Match("group_advantages(eps=1e-9)", group(eps=1e-9)),
        "k1": _default(SINGLE),
        "k2": _default(SINGLE),
        "k3": _default(SINGLE),
        "GSPO": _default(COUNT_EPS),
        "aggregation, seq-mean-token-mean": _noted(_EXCLUDED, COUNT_EPS),
        "sampler weights, geometric, mask": Match(
            'importance_weights(high=None), where importance_weights(level="geometric", '
            'mode="mask") > 0',
            _geometric_filter(weigh=True),
        ),
    },
    "skyrl": {
        "whitening": _BESSEL_IN_ROOT,
        "whitening, masked": _BESSEL_IN_ROOT,
        "GAE, tokens, with gaps": Match("token_gae(rewards, values, None)", _mask_ignored),
        "reward-to-go, with gaps": Differs(
            reason="sets the return to 0 at a masked token, so that a reward behind a tool's "
            "output does not reach the turn before it; ours carries it across"
        ),
        "group advantages": _RAW_SINGLETON,
        "k2": _unclamped("k2"),
        "PPO clip": _default("exp in float32"),
        "CISPO": _default("exp in float32"),
        "sampler weights, token, truncate": _default("exp in float32"),
        "sampler weights, token, mask": _default("exp in float32"),
        "sampler weights, sequence, truncate": _default("exp in float32"),
        "sampler weights, geometric, mask": Match(
            'importance_weights(level="geometric", mode="mask") > 0', _geometric_filter(weigh=False)
        ),
    },
}
