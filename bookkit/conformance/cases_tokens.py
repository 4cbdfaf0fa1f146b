"""Cases about tokens: masks, log-probabilities, entropy, where a reward stands, KL per token."""

from bookkit.conformance.case import RAISES, Case, right, way, wrong

NAN = float("nan")
TRUE_KL_GRADIENT = [-0.2331885807, 0.3639891521, -0.1308005713]

TOKEN_CASES = (
    Case(
        "logprobs",
        "log-probabilities of tokens",
        "definition",
        "token_logprobs",
        {"logits": [[[2, 1, 0]] * 3], "tokens": [[0, 1, 2]], "temperature": 1.0},
        (right([[-0.4076059644, -1.4076059644, -2.4076059644]]),),
    ),
    Case(
        "D12-temperature",
        "temperature divides the logits before the softmax",
        "prime-rl PR #697; TRL PR #3029, #4159",
        "token_logprobs",
        {"logits": [[[2, 1, 0]] * 3], "tokens": [[0, 1, 2]], "temperature": 0.5},
        (
            right([[-0.1429316285, -2.1429316285, -4.1429316285]]),
            wrong(
                [[-0.8152119289, -2.8152119289, -4.8152119289]],
                "the log-probability is divided, not the logits",
            ),
            wrong([[-0.4076059644, -1.4076059644, -2.4076059644]], "temperature is ignored"),
        ),
    ),
    Case(
        "entropy",
        "entropy of softmax([2, 1, 0])",
        "definition",
        "entropy",
        {"logits": [[[2, 1, 0]]]},
        (right([[0.8323955818]]),),
    ),
    Case(
        "entropy-huge",
        "entropy with one logit of 1000",
        "overflow of an exp that was not shifted",
        "entropy",
        {"logits": [[[1000, 0, 0]]]},
        (right([[0.0]]), wrong([[NAN]], "exp overflows")),
    ),
    Case(
        "entropy-banned",
        "entropy where a token is banned by -inf",
        "0 * inf; action masks",
        "entropy",
        {"logits": [[[0, 0, -float("inf")]]]},
        (
            right([[0.6931471806]]),
            wrong([[NAN]], "0 * -inf: banned tokens need another path"),
        ),
    ),
    Case(
        "masked-mean-exact",
        "mean of [1, 2, 3] out of [1, 2, 3, 4]",
        "definition",
        "masked_mean",
        {"x": [[1, 2, 3, 4]], "mask": [[1, 1, 1, 0]]},
        (
            way(2.0, "exact"),
            way(6 / (3 + 1e-8), "divides by count + 1e-8"),
        ),
        tolerance=1e-10,
    ),
    Case(
        "masked-mean-empty",
        "mean of nothing",
        "TRL PR #3248",
        "masked_mean",
        {"x": [[1, 2]], "mask": [[0, 0]]},
        (right(0.0), wrong(NAN, "0 / 0: an empty micro-batch poisons the step")),
    ),
    Case(
        "masked-mean-garbage",
        "NaN under a 0 of the mask",
        "x * mask keeps NaN",
        "masked_mean",
        {"x": [[1, 3, NAN]], "mask": [[1, 1, 0]]},
        (right(2.0), wrong(NAN, "x * mask lets NaN through")),
    ),
    Case(
        "D08-eos-is-pad",
        "a response whose EOS id is also the padding",
        "huggingface/transformers #23530; TRL #976",
        "completion_mask",
        {"ids": [[5, 6, 2, 2, 2]], "eos_ids": (2,)},
        (
            right([[1, 1, 1, 0, 0]]),
            wrong([[1, 1, 0, 0, 0]], "the real EOS is masked: the model never learns to stop"),
        ),
    ),
    Case(
        "D09-reward-index",
        "where the reward of a sequence stands",
        "huggingface/transformers #35352; TRL #3750",
        "place_sequence_reward",
        {"rewards": [7], "mask": [[1, 1, 1, 0, 0]]},
        (
            right([[0, 0, 7, 0, 0]], "on the last real token"),
            way([[0, 0, 0, 7, 0]], "on the position behind it"),
        ),
    ),
    Case(
        "D09-reward-empty-row",
        "the reward of a row without a token",
        "conventions differ",
        "place_sequence_reward",
        {"rewards": [7], "mask": [[0, 0, 0, 0]]},
        (
            way([[0, 0, 0, 0]], "is dropped"),
            way([[0, 0, 0, 7]], "stands in the last column"),
        ),
    ),
    Case(
        "D07-k1",
        "k1 may be negative",
        "TRL #235, #417",
        "kl",
        {"logp": [[-2, -1]], "ref_logp": [[-1, -1.5]], "kind": "k1"},
        (right([[-1, 0.5]]), wrong([[1, -0.5]], "the sign is turned")),
    ),
    Case(
        "D07-k2",
        "k2",
        "Schulman, Approximating KL divergence",
        "kl",
        {"logp": [[-2, -1]], "ref_logp": [[-1, -1.5]], "kind": "k2"},
        (right([[0.5, 0.125]]), wrong([[1.0, 0.25]], "the half is missing")),
    ),
    Case(
        "D07-k3",
        "k3",
        "Schulman, Approximating KL divergence",
        "kl",
        {"logp": [[-2, -1]], "ref_logp": [[-1, -1.5]], "kind": "k3"},
        (
            right([[0.7182818285, 0.1065306597]]),
            wrong([[0.3678794412, 0.1487212707]], "the sign of the log-ratio is turned"),
        ),
    ),
    Case(
        "kl-clamp-k1",
        "k1 of a log-ratio of 30",
        "clamps differ between libraries",
        "kl",
        {"logp": [[30]], "ref_logp": [[0]], "kind": "k1"},
        (way([[30]], "k1 is not clamped"), way([[10]], "k1 is clamped to 10")),
    ),
    Case(
        "kl-clamp-k2",
        "k2 of a log-ratio of 30",
        "clamps differ between libraries",
        "kl",
        {"logp": [[30]], "ref_logp": [[0]], "kind": "k2"},
        (
            way([[450]], "k2 is not clamped"),
            way([[200]], "k2 of the log-ratio clamped to 20"),
            way([[10]], "k2 is clamped to 10"),
        ),
    ),
    Case(
        "kl-clamp-k3",
        "k3 of a log-ratio of -30",
        "clamps differ between libraries",
        "kl",
        {"logp": [[-30]], "ref_logp": [[0]], "kind": "k3"},
        (
            way([[485165195.4097903 - 21]], "log-ratio clamped to 20"),
            way([[10]], "k3 is clamped to 10"),
            way([[10686474581524.463 - 31]], "not clamped"),
        ),
        relative=1e-6,
    ),
    *(
        Case(
            f"D13-gradient-{kind}",
            f"expected derivative of {kind} used as a loss",
            "NeMo RL PR #2506; TRL #3025, #4967; open-instruct #534; verl PR #2953",
            "kl",
            {"theta": [0, 1, -1], "ref": [0.5, 0, 0], "kind": kind},
            (
                way([0, 0, 0], "no gradient at all: as a loss it holds nothing"),
                way(TRUE_KL_GRADIENT, "gradient of KL(policy || reference)"),
                way(
                    [-0.2071342908, 0.3911723367, -0.1840380459],
                    "gradient of KL(reference || policy)",
                ),
            ),
            measure="expected gradient",
        )
        for kind in ("k1", "k2", "k3")
    ),
    *(
        Case(
            f"mismatch-{level}-{mode}",
            f"weights against the sampler: {level}, {mode}",
            "truncated importance sampling; IcePop",
            "importance_weights",
            {
                "train_logp": [[0.1, 1, -2]],
                "rollout_logp": [[0, 0, 0]],
                "mask": [[1, 1, 1]],
                "mode": mode,
                "level": level,
                "low": low,
                "high": high,
            },
            outcomes,
        )
        for level, mode, low, high, outcomes in (
            (
                "token",
                "truncate",
                None,
                2.0,
                (right([[1.1051709181, 2, 0.1353352832]]),),
            ),
            (
                "token",
                "mask",
                0.5,
                5.0,
                (
                    right([[1.1051709181, 2.7182818285, 0]]),
                    way([[0, 0, 0]], "one token outside drops the whole sequence"),
                ),
            ),
            (
                "sequence",
                "truncate",
                None,
                2.0,
                (
                    right([[0.4065696597] * 3]),
                    wrong([[0.7408182207] * 3], "the geometric mean instead of the product"),
                ),
            ),
            (
                "geometric",
                "mask",
                0.5,
                5.0,
                (
                    way([[0.7408182207] * 3], "the geometric mean filters and weighs"),
                    way(
                        [[1.1051709181, 2.7182818285, 0.1353352832]],
                        "the geometric mean filters, the tokens' own ratios weigh",
                    ),
                    way([[1, 1, 1]], "the geometric mean filters, nothing weighs"),
                ),
            ),
        )
    ),
    Case(
        "mismatch-garbage",
        "NaN log-probabilities under a 0 of the mask",
        "0 * NaN",
        "importance_weights",
        {
            "train_logp": [[0.1, NAN]],
            "rollout_logp": [[0, NAN]],
            "mask": [[1, 0]],
            "mode": "truncate",
            "level": "sequence",
            "low": None,
            "high": 2.0,
        },
        (
            right([[1.1051709181]]),
            wrong([[NAN]], "NaN under the mask reaches the weight"),
            way(RAISES, "refuses"),
        ),
        at=(0,),
    ),
)
