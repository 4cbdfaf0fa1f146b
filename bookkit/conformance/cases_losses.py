"""Cases about losses and their reduction."""

from math import exp, log

from bookkit.conformance.case import Case, right, way, wrong

NAN = float("nan")
RATIOS = (0.5, 0.9, 1.1, 1.5, 4.0)
PREFERENCE = {
    "ref_chosen_logp": [-8],
    "ref_rejected_logp": [-2],
    "chosen_tokens": [3],
    "rejected_tokens": [1],
}


def _preference(chosen: float, rejected: float, **options: object) -> dict[str, object]:
    """Log-ratios as log-probabilities that are negative, as real ones are."""
    logps = {"chosen_logp": [-8 + chosen], "rejected_logp": [-2 + rejected]}
    return {**logps, **PREFERENCE, **options}


LOSS_CASES = (
    Case(
        "ppo-positive",
        "clipped loss, advantage +1",
        "arXiv:1707.06347, eq. 7",
        "ppo_loss",
        {"logp": [log(r) for r in RATIOS], "old_logp": [0] * 5, "advantages": [1] * 5},
        (right([-0.5, -0.9, -1.1, -1.2, -1.2]),),
    ),
    Case(
        "ppo-negative",
        "clipped loss, advantage -1",
        "arXiv:1707.06347, eq. 7; dual clip arXiv:1912.09729",
        "ppo_loss",
        {"logp": [log(r) for r in RATIOS], "old_logp": [0] * 5, "advantages": [-1] * 5},
        (
            way([0.8, 0.9, 1.1, 1.5, 4.0], "no dual clip by default"),
            way([0.8, 0.9, 1.1, 1.5, 3.0], "dual clip at 3 by default"),
        ),
    ),
    Case(
        "ppo-gradient",
        "its derivative is 0 where the clip holds",
        "arXiv:1707.06347, eq. 7",
        "ppo_loss",
        {
            "logp": [log(1.5), log(0.5), log(1.5), log(0.5)],
            "old_logp": [0] * 4,
            "advantages": [1, -1, -1, 1],
        },
        (right([0, 0, 1.5, -0.5]),),
        measure="gradient",
    ),
    Case(
        "ppo-clamp",
        "log-ratio of 50, advantage -1",
        "clamps differ between libraries",
        "ppo_loss",
        {"logp": [50], "old_logp": [0], "advantages": [-1]},
        (
            way([exp(50)], "log-ratio not clamped"),
            way([exp(20)], "log-ratio clamped to 20"),
            way([3.0], "dual clip at 3 by default"),
        ),
        relative=1e-6,
    ),
    Case(
        "gspo",
        "sequence ratio is the geometric mean",
        "arXiv:2507.18071, eq. 7",
        "gspo_loss",
        {
            "logp": [[0.2, -0.1, 0.5, 9]],
            "old_logp": [[0, 0, 0, 0]],
            "advantages": [[1]],
            "mask": [[1, 1, 1, 0]],
        },
        (
            right(-1.2214027582),
            wrong(-1.8221188004, "the product: lengths enter the ratio"),
        ),
    ),
    Case(
        "gspo-gradient",
        "its derivative reaches every token alike",
        "arXiv:2507.18071, eq. 10",
        "gspo_loss",
        {
            "logp": [[0.2, -0.1, 0.5, 9]],
            "old_logp": [[0, 0, 0, 0]],
            "advantages": [[1]],
            "mask": [[1, 1, 1, 0]],
        },
        (right([[-0.4071342527] * 3]),),
        measure="gradient",
        at=(0, 1, 2),
    ),
    Case(
        "cispo-bounds",
        "CISPO's bounds, given .2 and .28",
        "arXiv:2506.13585, eq. 5",
        "cispo_loss",
        {
            "logp": [log(0.5), log(1.3), log(2.0)],
            "old_logp": [0, 0, 0],
            "advantages": [1, 1, 1],
            "low": 0.2,
            "high": 0.28,
        },
        (
            way([-0.8, -1.28, -1.28], "relative: 1 - low and 1 + high"),
            way([-0.28, -0.28, -0.28], "absolute: high is the bound itself"),
        ),
        measure="gradient",
    ),
    *(
        Case(
            f"aggregate-{mode}",
            f"losses [1, 1, 1, 1] and [3], {mode}",
            source,
            "aggregate",
            {
                "per_token": [[1, 1, 1, 1, 0], [3, 0, 0, 0, 0]],
                "mask": [[1, 1, 1, 1, 0], [1, 0, 0, 0, 0]],
                "mode": mode,
                "max_tokens": 5,
            },
            outcomes,
        )
        for mode, source, outcomes in (
            ("token-mean", "arXiv:2503.14476, eq. 8", (right(1.4),)),
            ("seq-mean-token-mean", "arXiv:2402.03300, eq. 3", (right(2.0),)),
            ("seq-mean-token-sum", "the policy-gradient theorem", (right(3.5),)),
            (
                "seq-mean-token-sum-norm",
                "arXiv:2503.20783; verl changed it in 2026",
                (right(0.7), wrong(1.4, "not divided by the number of sequences")),
            ),
        )
    ),
    Case(
        "aggregate-empty-row",
        "mean of sequence means with an empty row",
        "TRL PR #3248; conventions differ",
        "aggregate",
        {
            "per_token": [[1, 1], [9, 9], [3, 0]],
            "mask": [[1, 1], [0, 0], [1, 0]],
            "mode": "seq-mean-token-mean",
            "max_tokens": 2,
        },
        (
            way(4 / 3, "an empty row counts as a sequence"),
            way(2.0, "an empty row does not count"),
            wrong(NAN, "0 / 0"),
        ),
    ),
    Case(
        "D06-masked-row",
        "a truncated row is masked out",
        "TRL #6369, PR #6439",
        "aggregate",
        {
            "per_token": [[1] * 6, [1] * 6],
            "mask": [[1, 1, 1, 1, 0, 0], [0] * 6],
            "mode": "token-mean",
            "max_tokens": 6,
        },
        (right(1.0), wrong(0.4, "the denominator counts tokens that are masked out")),
    ),
    Case(
        "D06-all-masked",
        "nothing counts",
        "TRL PR #3248",
        "aggregate",
        {
            "per_token": [[1] * 3, [1] * 3],
            "mask": [[0] * 3, [0] * 3],
            "mode": "token-mean",
            "max_tokens": 3,
        },
        (right(0.0), wrong(NAN, "0 / 0: the step is lost")),
    ),
    Case(
        "aggregate-garbage",
        "NaN under a 0 of the mask",
        "x * mask keeps NaN",
        "aggregate",
        {
            "per_token": [[1, NAN], [2, 3]],
            "mask": [[1, 0], [1, 1]],
            "mode": "token-mean",
            "max_tokens": 2,
        },
        (right(2.0), wrong(NAN, "x * mask lets NaN through")),
    ),
    Case(
        "D04-micro-batches",
        "micro-batches of 2 and 6 tokens with losses .5 and .3",
        "SkyRL PR #925, #1296; verl #5625; NeMo RL #212",
        "aggregate",
        {
            "per_token": [[0.5, 0.5, 0.5], [0.3, 0.3, 0.3], [0.3, 0.3, 0.3]],
            "mask": [[1, 1, 0], [1, 1, 1], [1, 1, 1]],
            "mode": "token-mean",
            "max_tokens": 3,
        },
        (right(0.35), wrong(0.8, "no way to pass the global count: a sum of means")),
        measure="sum of parts",
        parts=(1, 2),
    ),
    Case(
        "D05-ranks-seq-mean",
        "mean of sequence means over two unequal ranks",
        "transformers #34242; prime-rl PR #2359; torchtitan PR #2206",
        "aggregate",
        {
            "per_token": [[1, 1], [4, 0], [7, 7]],
            "mask": [[1, 1], [1, 0], [1, 1]],
            "mode": "seq-mean-token-mean",
            "max_tokens": 2,
        },
        (right(4.0), wrong(6.5, "no way to pass the global count: a sum of means")),
        measure="sum of parts",
        parts=(1, 2),
    ),
    Case(
        "value-clipped",
        "value loss: old 1, new 2, return 1.1, clip .2",
        "OpenAI baselines; conventions differ",
        "value_loss",
        {"values": [2], "returns": [1.1], "old_values": [1], "clip": 0.2},
        (
            way([0.405], "half of the larger square"),
            way([0.81], "the larger square"),
            way([0.01], "the square of the clipped prediction alone: no gradient here"),
        ),
    ),
    Case(
        "value-plain",
        "value loss without a clip: new 2, return 1.1",
        "conventions differ",
        "value_loss",
        {"values": [2], "returns": [1.1], "old_values": [1], "clip": None},
        (way([0.405], "half of the square"), way([0.81], "the square")),
    ),
    *(
        Case(
            f"preference-{kind}{'-smoothed' if smoothing else ''}",
            f"preference loss {kind}, margin 2, beta .5, label smoothing {smoothing}",
            "arXiv:2305.18290, eq. 7; cDPO; arXiv:2403.00409",
            "preference_loss",
            _preference(2, 0, beta=0.5, kind=kind, label_smoothing=smoothing),
            outcomes,
        )
        for kind, smoothing, outcomes in (
            ("sigmoid", 0.0, (right([0.3132616875]),)),
            (
                "sigmoid",
                0.1,
                (
                    way([0.4132616875], "conservative DPO"),
                    way([0.3132616875], "label smoothing is ignored by 'sigmoid'"),
                ),
            ),
            ("robust", 0.1, (right([0.1882616875]),)),
        )
    ),
    Case(
        "D14-hinge",
        "hinge, margin 6, beta .1",
        "ms-swift PR #10167",
        "preference_loss",
        _preference(6, 0, beta=0.1, kind="hinge", label_smoothing=0.0),
        (right([0.4]),),
    ),
    Case(
        "D14-ipo",
        "IPO: log-ratio 6 over 3 tokens against -2 over 1, beta .1",
        "TRL PR #1265, #1677; torchtune PR #1615; ms-swift PR #9925",
        "preference_loss",
        _preference(6, -2, beta=0.1, kind="ipo", label_smoothing=0.0),
        (way([9.0], "sums"), way([1.0], "averages over tokens")),
        tolerance=1e-5,
    ),
    Case(
        "reward-model",
        "Bradley-Terry with a margin of .5",
        "arXiv:2307.09288, eq. 2",
        "reward_model_loss",
        {"chosen": [1.2], "rejected": [0.4], "margin": [0.5]},
        (right([0.5543552445]), wrong([0.3711006660], "the margin is ignored")),
    ),
)
