"""Seven algorithms as settings of one trainer: what each changes stands in a line or two.

Where a paper leaves a number open, or gives one for models of billions of parameters, the comment
says so; any setting can be changed on top: ``variant("grpo", kl_coefficient=0.0)``.
"""

from typing import Any

from nbkit._inputs import check_choice
from nbkit.trainers.grpo.config import GRPOConfig

VARIANTS: dict[str, dict[str, Any]] = {
    # Shao et al., arXiv:2402.03300, eq. 3 and section 4.1: mean and std of the group, the mean over
    # sequences of their token means, k3 in the loss.
    "grpo": {"kl_coefficient": 0.04, "kl_kind": "k3", "kl_place": "loss"},
    # Liu et al., arXiv:2503.20783: no division by the std, no division by the own length, no KL.
    "dr_grpo": {"scale": None, "aggregation": "seq-mean-token-sum-norm"},
    # Ahmadian et al., arXiv:2402.14740: the mean of the others, plain policy gradient of the whole
    # sequence, k1 taken off the reward.
    "rloo": {
        "baseline": "leave-one-out",
        "scale": None,
        "objective": "policy-gradient",
        "aggregation": "seq-mean-token-sum",
        "kl_coefficient": 0.03,
        "kl_kind": "k1",
        "kl_place": "reward",
    },
    # Hu, arXiv:2501.03262: no group; reward-to-go with k1 a token, whitened over the batch.
    # The coefficient is one of ours; it depends on the task.
    "reinforce++": {
        "advantage": "return",
        "whiten": True,
        "aggregation": "token-mean",
        "kl_coefficient": 0.01,
        "kl_kind": "k1",
        "kl_place": "reward",
    },
    # Yu et al., arXiv:2503.14476: asymmetric clip, groups with a signal only, one mean over all
    # tokens, a soft penalty near the limit, no KL. Their buffer is a fifth of the limit.
    "dapo": {
        "clip_high": 0.28,
        "dynamic_sampling": True,
        "aggregation": "token-mean",
        "overlong_buffer": None,
    },
    # Zheng et al., arXiv:2507.18071: one ratio a sequence, its geometric mean, and so a clip that
    # is smaller by two orders of magnitude; their numbers.
    "gspo": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
    # MiniMax, arXiv:2506.13585, eq. 4: the clipped ratio is a weight; no lower bound, and an upper
    # one that the paper leaves open: 5 here.
    "cispo": {
        "objective": "cispo",
        "clip_low": None,
        "clip_high": 4.0,
        "aggregation": "token-mean",
    },
}


def variant(name: str, **changes: Any) -> GRPOConfig:
    """Return the settings of a named algorithm, with changes on top.

    Args:
        name: a key of ``VARIANTS``.
        changes: fields of ``GRPOConfig``.

    Raises:
        ValueError: an unknown name, or settings that do not go together.

    """
    check_choice("name", name, tuple(VARIANTS))
    settings = {**VARIANTS[name], **changes}
    if settings.get("overlong_buffer", 0) is None:
        limit = settings.get("max_new_tokens", GRPOConfig.max_new_tokens)
        settings["overlong_buffer"] = limit // 5
    return GRPOConfig(**settings)
