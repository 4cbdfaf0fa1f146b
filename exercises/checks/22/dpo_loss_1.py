"""dpo.loss.1: the loss of DPO."""

import math

from dpo_pairs import four, hand_case

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    chosen_logp: list[float],
    rejected_logp: list[float],
    ref_chosen_logp: list[float],
    ref_rejected_logp: list[float],
    beta: float,
) -> list[float]:
    """log(1 + exp(-x)), with the larger exponent taken out."""
    losses = []
    rows = zip(chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp, strict=True)
    for chosen, rejected, ref_chosen, ref_rejected in rows:
        x = beta * ((chosen - rejected) - (ref_chosen - ref_rejected))
        losses.append(max(0.0, -x) + math.log1p(math.exp(-abs(x))))
    return losses


def cases(draw: Draw) -> Case:
    """Log-probabilities of several nats."""
    n = draw.dimension()
    return Case(f"{n} pairs", {**four(draw, n), "beta": draw.choice([0.1, 0.3, 0.5, 1.0])})


def edges() -> tuple[Case, ...]:
    """The start, by hand, a margin of each sign, a huge one, several pairs."""
    return (
        hand_case("the first step", [[-3.0, -5.0, -3.0, -5.0]], 0.5),
        hand_case("by hand", [[-4.0, -7.0, -5.0, -6.0]], 0.5),
        hand_case("the reference prefers it too", [[-4.0, -9.0, -5.0, -8.0]], 0.5),
        hand_case("a beta of 0.1", [[-2.0, -4.0, -5.0, -3.0]], 0.1),
        hand_case("wrong by far", [[-900.0, -1.0, -3.0, -4.0]], 1.0, gradient=False),
        hand_case("two pairs", [[-4.0, -7.0, -5.0, -6.5], [-1.0, -2.0, -1.5, -4.0]], 0.5),
    )


CHECK = Check(
    id="dpo.loss.1",
    outputs=(Output("loss", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "chosen and rejected exchanged",
            "chosen - rejected",
            "(rejected - chosen)",
            "chosen and rejected are exchanged: the loss falls as the rejected one gets likelier",
        ),
        edits(
            "no reference",
            (" - ref_chosen_logp.detach()", ""),
            (" - ref_rejected_logp.detach()", ""),
            message="the reference has no effect: compare each log-probability with the "
            "reference's of the same answer, so that the first loss is log 2",
        ),
        edits(
            "reference added",
            ("ref_rejected_logp.", "(-ref_rejected_logp)."),
            ("ref_chosen_logp.", "(-ref_chosen_logp)."),
            message="the reference's log-probabilities have the wrong sign, or are exchanged, "
            "which is the same: a log-ratio is a difference, each answer against itself",
        ),
        edit("beta not used", "beta *", "1.0 *", "`beta` has no effect: it multiplies the margin"),
        edit(
            "beta outside",
            "logsigmoid(beta * (chosen - rejected))",
            "beta * logsigmoid(chosen - rejected)",
            "beta multiplies the loss: it belongs inside the sigmoid, where it decides "
            "from which margin on a pair counts as learned",
        ),
        edit(
            "divided by beta",
            "beta *",
            "(1 / beta) *",
            "the margin is divided by beta; the reward is beta times the log-ratio",
        ),
        edit(
            "minus missing",
            "-logsigmoid",
            "logsigmoid",
            "the sign is opposite: the loss is minus the log-likelihood of the preference",
        ),
        edit(
            "log missing",
            "-logsigmoid(beta * (chosen - rejected))",
            "1 - torch.exp(-(-logsigmoid(beta * (chosen - rejected))))",
            "one minus the sigmoid is returned; the loss is minus its logarithm",
        ),
        edit(
            "log of a sigmoid",
            "logsigmoid(beta * (chosen - rejected))",
            "torch.sigmoid(beta * (chosen - rejected)).log()",
            "the sigmoid of a large negative margin is 0 and its log -inf: use `logsigmoid`",
        ),
        edit(
            "the reference gets a gradient",
            "chosen - rejected",
            "chosen_logp - ref_chosen_logp - (rejected_logp - ref_rejected_logp)",
            "the values are right, but a gradient reaches the reference: it is frozen, so "
            "detach its numbers",
        ),
        edit(
            "ratios for log-ratios",
            "(chosen - rejected)",
            "(chosen.exp() - rejected.exp())",
            "the ratios of probabilities are compared; compare their logarithms, without exp",
        ),
        edit(
            "mean",
            "-logsigmoid(beta * (chosen - rejected))",
            "(-logsigmoid(beta * (chosen - rejected))).mean()",
            "the mean over the pairs is returned; return one number a pair",
        ),
        edit(
            "two losses",
            "logsigmoid(beta * (chosen - rejected))",
            "logsigmoid(beta * chosen) - logsigmoid(-beta * rejected)",
            "each answer has a sigmoid of its own: only the difference of the two rewards "
            "enters the sigmoid, since the preference says nothing else",
        ),
    ),
    not_tested="where the log-probabilities come from.",
    gradient_to=("chosen_logp", "rejected_logp"),
    no_gradient_to=("ref_chosen_logp", "ref_rejected_logp"),
    wide=(
        "chosen_logp",
        "rejected_logp",
        "ref_chosen_logp",
        "ref_rejected_logp",
    ),
)
