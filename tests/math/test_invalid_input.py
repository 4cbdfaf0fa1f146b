"""What is undefined raises ValueError, and the sentence names the argument and its shape."""

from collections.abc import Callable

import pytest
import torch

from nbkit.advantages import (
    batch_moments,
    discounted_returns,
    gae,
    group_advantages,
    merge_moments,
    token_gae,
    whiten,
)
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
from nbkit.masks import (
    aggregate,
    completion_mask,
    last_token_index,
    masked_mean,
    place_sequence_reward,
    position_ids,
)
from nbkit.off_policy import decoupled_ppo_loss, effective_sample_size

X = torch.randn(2, 3)  # (B,T)
COLUMN, ROW, WRONG = torch.randn(2, 1), torch.randn(2), torch.randn(2, 4)
LOGITS, IDS = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))
MASK, MASK_WRONG, MASK_TWO = torch.ones(2, 3), torch.ones(3, 2), torch.full((2, 3), 2)
FLAGS = torch.zeros(2, 3)
NAN = float("nan")

# (what is wrong, the call, what the sentence must contain)
CASES: list[tuple[str, Callable[[], object], str]] = [
    # advantages along the wrong axis: the most expensive silent broadcast of the field
    ("pg (B,)", lambda: policy_gradient_loss(X, ROW), r"advantages .*\(2, 3\).*\(2,\)"),
    ("ppo (B,)", lambda: ppo_clip_loss(X, X, ROW), r"advantages .*\(2,\)"),
    ("cispo (B,)", lambda: cispo_loss(X, X, ROW, clip_low=0.1, clip_high=0.1), "advantages"),
    (
        "square (B,) is not (B,T) either",
        lambda: policy_gradient_loss(torch.randn(3, 3), torch.randn(3)),
        r"advantages .*\(3,\)",
    ),
    ("pg (1,T)", lambda: policy_gradient_loss(X, torch.randn(1, 3)), "advantages"),
    ("ppo advantages", lambda: ppo_clip_loss(X, X, WRONG), r"advantages .*\(2, 4\)"),
    ("pg int", lambda: policy_gradient_loss(X, torch.ones(2, 1, dtype=torch.int)), "advantages"),
    # shapes
    ("ppo old", lambda: ppo_clip_loss(X, WRONG, COLUMN), r"old_logp .*\(2, 4\)"),
    ("kl ref", lambda: kl_estimate(X, WRONG, "k1"), r"ref_logp .*\(2, 4\)"),
    ("kl exact", lambda: kl_exact(LOGITS, X), r"ref_logits .*\(2, 3\)"),
    ("value returns", lambda: value_loss(X, WRONG), r"returns .*\(2, 4\)"),
    ("value old", lambda: value_loss(X, X, old_values=WRONG, clip=0.2), r"old_values .*\(2, 4\)"),
    ("rm", lambda: reward_model_loss(ROW, torch.randn(3)), r"rejected .*\(3,\)"),
    ("rm margin", lambda: reward_model_loss(ROW, ROW, margin=torch.randn(3)), r"margin .*\(3,\)"),
    ("rm matrix", lambda: reward_model_loss(X, X), r"chosen .*\(2, 3\)"),
    ("dpo", lambda: preference_loss(ROW, ROW, ROW, torch.randn(3), beta=0.1), "ref_rejected_logp"),
    ("weights", lambda: importance_weights(X, WRONG, None), r"rollout_logp .*\(2, 4\)"),
    ("proximal", lambda: decoupled_ppo_loss(X, WRONG, X, COLUMN), r"proximal_logp .*\(2, 4\)"),
    ("behaviour", lambda: decoupled_ppo_loss(X, X, WRONG, COLUMN), r"behaviour_logp .*\(2, 4\)"),
    ("decoupled (B,)", lambda: decoupled_ppo_loss(X, X, X, ROW), r"advantages .*\(2,\)"),
    ("decoupled flat", lambda: decoupled_ppo_loss(ROW, ROW, ROW, ROW), r"logp .*\(2,\)"),
    ("gae values", lambda: gae(X, WRONG, X, FLAGS, FLAGS, gamma=1, lam=1), r"values .*\(2, 4\)"),
    ("gae next", lambda: gae(X, X, ROW, FLAGS, FLAGS, gamma=1, lam=1), r"next_values .*\(2,\)"),
    ("gae flag", lambda: gae(X, X, X, ROW, FLAGS, gamma=1, lam=1), r"terminated .*\(2,\)"),
    ("gae done", lambda: gae(X, X, X, FLAGS, ROW, gamma=1, lam=1), r"done .*\(2,\)"),
    ("gae 3d", lambda: gae(LOGITS, LOGITS, LOGITS, LOGITS, LOGITS, gamma=1, lam=1), "rewards"),
    ("token_gae", lambda: token_gae(X, WRONG, None, gamma=1, lam=1), r"values .*\(2, 4\)"),
    ("returns scalar", lambda: discounted_returns(torch.tensor(1.0), 1.0), r"rewards .*\(\)"),
    ("aggregate flat", lambda: aggregate(ROW, None, "token-mean"), r"per_token .*\(2,\)"),
    ("logprobs", lambda: token_logprobs(LOGITS, IDS[:, :2]), r"tokens .*\(2, 2\)"),
    ("next", lambda: next_token_logprobs(LOGITS, IDS[:, :2]), r"ids .*\(2, 2\)"),
    ("next one", lambda: next_token_logprobs(LOGITS[:, :1], IDS[:, :1]), r"ids .*\(2, 1\)"),
    ("no vocabulary", lambda: entropy(torch.randn(2, 0)), r"logits .*\(2, 0\)"),
    ("completion", lambda: completion_mask(IDS[0], 2), r"ids .*\(3,\)"),
    ("positions", lambda: position_ids(MASK[0]), r"attention .*\(3,\)"),
    ("last", lambda: last_token_index(MASK[0]), r"mask .*\(3,\)"),
    ("place", lambda: place_sequence_reward(torch.randn(3), MASK), r"rewards .*\(3,\)"),
    # masks
    *(
        (f"mask of another shape {i}", call, r"mask .*\(3, 2\)")
        for i, call in enumerate(
            [
                lambda: masked_mean(X, MASK_WRONG),
                lambda: aggregate(X, MASK_WRONG, "token-mean"),
                lambda: policy_gradient_loss(X, X, mask=MASK_WRONG),
                lambda: ppo_clip_loss(X, X, X, mask=MASK_WRONG),
                lambda: cispo_loss(X, X, X, mask=MASK_WRONG, clip_low=0.1, clip_high=0.1),
                lambda: value_loss(X, X, mask=MASK_WRONG),
                lambda: kl_estimate(X, X, "k1", mask=MASK_WRONG),
                lambda: importance_weights(X, X, MASK_WRONG),
                lambda: decoupled_ppo_loss(X, X, X, X, mask=MASK_WRONG),
                lambda: effective_sample_size(X.exp(), MASK_WRONG),
                lambda: whiten(X, MASK_WRONG),
                lambda: batch_moments(X, MASK_WRONG),
                lambda: discounted_returns(X, 1.0, mask=MASK_WRONG),
                lambda: token_gae(X, X, MASK_WRONG, gamma=1, lam=1),
                lambda: token_logprobs(LOGITS, IDS, mask=MASK_WRONG),
                lambda: next_token_logprobs(LOGITS, IDS, mask=MASK_WRONG),
                lambda: entropy(LOGITS, mask=MASK_WRONG),
            ]
        )
    ),
    ("mask of twos", lambda: masked_mean(X, MASK_TWO), "mask .*0 and 1"),
    ("mask of NaN", lambda: masked_mean(X, MASK * NAN), "mask .*0 and 1"),
    ("mask list", lambda: masked_mean(X, [[1, 1, 1]] * 2), "mask .*list"),  # type: ignore[arg-type]
    ("valid", lambda: gae(X, X, X, FLAGS, FLAGS, gamma=1, lam=1, valid=MASK_WRONG), "valid"),
    ("dim", lambda: masked_mean(X, MASK, dim=5), r"dim .*\(2, 3\).*5"),
    ("EOS of half", lambda: completion_mask(IDS, 1.5), "eos_ids .*integers"),  # type: ignore[arg-type]
    ("attention", lambda: completion_mask(IDS, 2, attention=MASK_WRONG), "attention"),
    (
        "sequence ratio unmasked",
        lambda: ppo_clip_loss(X, X, X, ratio="sequence"),
        "mask is missing",
    ),
    # choices
    ("mode", lambda: aggregate(X, None, "mean"), "mode .*'mean'"),
    ("empty_rows", lambda: aggregate(X, None, "token-mean", empty_rows="drop"), "empty_rows"),
    ("kind", lambda: kl_estimate(X, X, "k4"), "kind .*'k4'"),
    ("ratio", lambda: ppo_clip_loss(X, X, X, ratio="word"), "ratio"),
    ("bounds", lambda: cispo_loss(X, X, X, clip_low=0, clip_high=1, bounds="open"), "bounds"),
    ("form", lambda: value_loss(X, X, form="huber"), "form"),
    ("simpo counts", lambda: simpo_loss(ROW, ROW, ROW[:1], ROW, beta=1.0), "chosen_tokens"),
    ("simpo margin", lambda: simpo_loss(ROW, ROW, ROW, ROW, beta=1.0, margin=-1.0), "margin"),
    ("dpo kind", lambda: preference_loss(ROW, ROW, ROW, ROW, beta=1, kind="dpo"), "kind"),
    ("weights mode", lambda: importance_weights(X, X, None, mode="clip"), "mode"),
    ("weights level", lambda: importance_weights(X, X, None, level="batch"), "level"),
    ("eps_place", lambda: whiten(X, eps_place="outside"), "eps_place"),
    ("singleton", lambda: whiten(X, singleton="nan"), "singleton"),
    ("baseline", lambda: group_advantages(ROW, 2, baseline="loo"), "baseline"),
    ("scale", lambda: group_advantages(ROW, 2, scale="max"), "scale"),
    ("at", lambda: place_sequence_reward(ROW, MASK, at="first"), "at must"),
    # numbers
    ("gamma", lambda: discounted_returns(X, 1.5), "gamma .*1.5"),
    ("gamma NaN", lambda: discounted_returns(X, NAN), "gamma"),
    ("lam", lambda: token_gae(X, X, None, gamma=1, lam=-0.1), "lam"),
    ("temperature 0", lambda: token_logprobs(LOGITS, IDS, temperature=0.0), "temperature"),
    ("temperature inf", lambda: entropy(LOGITS, temperature=float("inf")), "temperature"),
    ("beta 0", lambda: preference_loss(ROW, ROW, ROW, ROW, beta=0.0), "beta"),
    (
        "smoothing one half",
        lambda: preference_loss(ROW, ROW, ROW, ROW, beta=1, kind="robust", label_smoothing=0.5),
        "label_smoothing",
    ),
    (
        "smoothing of a hinge",
        lambda: preference_loss(ROW, ROW, ROW, ROW, beta=1, kind="hinge", label_smoothing=0.1),
        "label_smoothing .*'hinge'",
    ),
    ("clip_low", lambda: ppo_clip_loss(X, X, X, clip_low=1.2), "clip_low"),
    ("clip_high", lambda: ppo_clip_loss(X, X, X, clip_high=-0.1), "clip_high"),
    ("dual_clip", lambda: ppo_clip_loss(X, X, X, dual_clip=1.0), "dual_clip"),
    ("clamp", lambda: ppo_clip_loss(X, X, X, log_ratio_clamp=0.0), "log_ratio_clamp"),
    ("low over high", lambda: importance_weights(X, X, None, low=3.0, high=2.0), "high"),
    ("cap", lambda: decoupled_ppo_loss(X, X, X, X, cap=-1.0), "high"),
    ("weight below 0", lambda: effective_sample_size(-X.abs() - 1), "weights must .*at least 0"),
    ("weight inf", lambda: effective_sample_size(X.abs() / 0), "weights must be finite"),
    ("eps", lambda: whiten(X, eps=-1.0), "eps"),
    ("ddof", lambda: whiten(X, ddof=-1), "ddof"),
    ("negative variance", lambda: whiten(X, moments=(4, 0.0, -1.0)), "moments"),
    ("moments elsewhere", lambda: group_advantages(ROW, 2, moments=(2, 0.0, 1.0)), "moments"),
    ("no parts", lambda: merge_moments([]), "parts"),
    ("max_tokens", lambda: aggregate(X, None, "seq-mean-token-sum-norm"), "max_tokens is missing"),
    (
        "max_tokens 0",
        lambda: aggregate(X, None, "seq-mean-token-sum-norm", max_tokens=0),
        "max_tokens",
    ),
    ("total", lambda: aggregate(X, None, "token-mean", total_tokens=-1), "total_tokens"),
    ("total vector", lambda: aggregate(X, None, "token-mean", total_tokens=ROW), "total_tokens"),
    # missing partners
    ("clip alone", lambda: value_loss(X, X, clip=0.2), "old_values is missing"),
    (
        "ipo counts",
        lambda: preference_loss(ROW, ROW, ROW, ROW, beta=1, kind="ipo-average"),
        "chosen_tokens is missing",
    ),
    ("no group", lambda: group_advantages(ROW), "group_size and group_ids"),
    ("two groups", lambda: group_advantages(ROW, 2, group_ids=IDS[0, :2]), "exactly one"),
    ("ragged", lambda: group_advantages(torch.randn(5), 2), r"group_size .*\(5,\)"),
    ("ids", lambda: group_advantages(ROW, group_ids=IDS[0]), r"group_ids .*\(3,\)"),
    # values
    ("id too large", lambda: token_logprobs(LOGITS, IDS + 5), r"tokens \(shape \(2, 3\)\)"),
    ("label -100", lambda: token_logprobs(LOGITS, IDS - 100), "tokens .*-100"),
    ("NaN reward", lambda: group_advantages(ROW * NAN, 2), r"rewards .*NaN.*valid=False"),
    (
        "terminated, not done",
        lambda: gae(X, X, X, MASK, FLAGS, gamma=1, lam=1),
        r"done must .*\(2, 3\)",
    ),
    ("ints", lambda: masked_mean(IDS, None), "x must be floating-point"),
    ("list", lambda: entropy([1.0, 2.0]), "logits must be a torch tensor"),  # type: ignore[arg-type]
    ("float ids", lambda: token_logprobs(LOGITS, X), "tokens must hold integers"),
]


@pytest.mark.parametrize(
    ("call", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_sentence_names_the_argument(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_no_steps_at_all() -> None:
    none = torch.zeros(2, 0)
    assert last_token_index(none).tolist() == [-1, -1]
    assert place_sequence_reward(torch.ones(2), none).shape == (2, 0)


def test_an_eos_beyond_the_dtype_of_the_ids_matches_nothing() -> None:
    ids = torch.tensor([[1, 2, 3]], dtype=torch.uint8)
    mask, truncated = completion_mask(ids, 258)  # 258 - 256 = 2
    assert mask.all()
    assert truncated.all()
