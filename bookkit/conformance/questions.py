"""The questions of the parity table: random inputs, and our function with its defaults."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bookkit.conformance.question_inputs import (
    Inputs,
    _aggregate,
    _environment,
    _groups,
    _logits,
    _masked,
    _pair,
    _policy,
    _preference,
    _responses,
    _returns,
    _sequences,
    _tokens,
    _unmasked,
    _values,
    _weights,
    aggregated,
    cispo,
    divergence,
    environment_advantages,
    gapped_mask,
    group,
    gspo,
    normal,
    padded_mask,
    policy,
    preference,
    squared,
    whitened,
)
from nbkit import advantages as adv
from nbkit import logprobs, losses, masks


@dataclass(frozen=True)
class Match:
    """Our call that reproduces a library's function, and the same as text for the reader.

    `note` explains a difference above float64 rounding and below the tolerance.
    """

    text: str = ""
    call: Callable[..., Tensor] | None = None
    note: str | None = None


@dataclass(frozen=True)
class Question:
    """A method of `Adapter` on random inputs."""

    key: str
    function: str
    inputs: Inputs
    default: Match
    gradient_of: str | None = None


QUESTIONS: tuple[Question, ...] = (
    *(
        Question(
            f"log-probabilities, T = {temperature}",
            "token_logprobs",
            _tokens(temperature),
            Match(
                f"token_logprobs(temperature={temperature})",
                lambda logits, tokens, temperature: logprobs.token_logprobs(
                    logits, tokens, temperature=temperature
                ),
            ),
            "logits",
        )
        for temperature in (1.0, 0.7)
    ),
    Question("entropy", "entropy", _logits, Match("entropy()", logprobs.entropy), "logits"),
    Question("masked mean", "masked_mean", _masked, Match("masked_mean()", masks.masked_mean), "x"),
    Question("whitening, masked", "whiten", _masked, Match("whiten()", whitened())),
    Question("whitening", "whiten", _unmasked, Match("whiten()", whitened())),
    Question(
        "GAE, environments",
        "environment_gae",
        _environment,
        Match("gae()", environment_advantages),
    ),
    *(
        Question(
            f"GAE, tokens, {name}",
            "token_gae",
            _responses(make_mask),
            Match("token_gae()", lambda **x: adv.token_gae(**x)[0]),
        )
        for name, make_mask in (("padded", padded_mask), ("with gaps", gapped_mask))
    ),
    *(
        Question(
            f"reward-to-go, {name}",
            "discounted_returns",
            _returns(make_mask),
            Match(
                "discounted_returns()",
                lambda rewards, mask, gamma: adv.discounted_returns(rewards, gamma, mask=mask),
            ),
        )
        for name, make_mask in (("padded", padded_mask), ("with gaps", gapped_mask))
    ),
    Question(
        "group advantages",
        "group_advantages",
        _groups,
        Match("group_advantages()", group()),
    ),
    Question(
        "leave-one-out",
        "leave_one_out",
        _groups,
        Match(
            'group_advantages(baseline="leave-one-out", scale=None)',
            group(baseline="leave-one-out", scale=None),
        ),
    ),
    *(
        Question(kind, "kl", _pair(kind), Match(f'kl_estimate("{kind}")', divergence()), "logp")
        for kind in ("k1", "k2", "k3")
    ),
    Question("PPO clip", "ppo_loss", _policy, Match("ppo_clip_loss()", policy()), "logp"),
    Question(
        "GSPO",
        "gspo_loss",
        _sequences,
        Match('ppo_clip_loss(ratio="sequence")', gspo()),
        "logp",
    ),
    Question(
        "CISPO",
        "cispo_loss",
        lambda g: _policy(g, low=0.2, high=0.28),
        Match("cispo_loss()", cispo()),
        "logp",
    ),
    *(
        Question(
            f"aggregation, {mode}",
            "aggregate",
            _aggregate(mode),
            Match(f'aggregate("{mode}")', aggregated()),
            "per_token",
        )
        for mode in masks.AGGREGATION_MODES
    ),
    *(
        Question(name, "value_loss", _values(clip), Match("value_loss()", squared()), "values")
        for name, clip in (("value loss, clipped", 0.2), ("value loss", None))
    ),
    *(
        Question(
            f"preference, {kind}{', smoothed' if smoothing else ''}",
            "preference_loss",
            _preference(kind, smoothing),
            Match(f'preference_loss(kind="{kind}", label_smoothing={smoothing})', preference()),
            "chosen_logp",
        )
        for kind, smoothing in (
            ("sigmoid", 0.0),
            ("sigmoid", 0.1),
            ("robust", 0.1),
            ("hinge", 0.0),
            ("ipo", 0.0),
        )
    ),
    Question(
        "reward model",
        "reward_model_loss",
        lambda g: {"chosen": normal(g, 9), "rejected": normal(g, 9), "margin": normal(g, 9).abs()},
        Match("reward_model_loss(margin=m)", losses.reward_model_loss),
        "chosen",
    ),
    *(
        Question(
            f"sampler weights, {level}, {mode}",
            "importance_weights",
            _weights(level, mode),
            Match(
                f'importance_weights(level="{level}", mode="{mode}")',
                losses.importance_weights,
            ),
        )
        for level, mode in (
            ("token", "truncate"),
            ("token", "mask"),
            ("sequence", "truncate"),
            ("sequence", "mask"),
            ("geometric", "mask"),
        )
    ),
    Question(
        "reward on a token",
        "place_sequence_reward",
        lambda g: {"rewards": normal(g, 6), "mask": gapped_mask(g)},
        Match("place_sequence_reward()", masks.place_sequence_reward),
    ),
    Question(
        "completion mask",
        "completion_mask",
        lambda g: {"ids": torch.randint(0, 5, (6, 9), generator=g), "eos_ids": [2, 3]},
        Match(
            "completion_mask()",
            lambda ids, eos_ids: masks.completion_mask(ids, eos_ids)[0].double(),
        ),
    ),
)
