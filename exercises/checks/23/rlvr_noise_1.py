"""rlvr.noise.1: the accuracy behind a verifier that errs."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(measured: list[float], false_positive: float, false_negative: float) -> list[float]:
    """The two points p = 0 and p = 1 are known; interpolate between what they would show."""
    shown_at_zero, shown_at_one = false_positive, 1 - false_negative
    result = []
    for share in measured:
        p = (share - shown_at_zero) / (shown_at_one - shown_at_zero)
        result.append(min(1.0, max(0.0, p)))
    return result


def cases(draw: Draw) -> Case:
    """Shares between 0 and 1, error rates below a half."""
    n = draw.dimension()
    inputs = {
        "measured": draw.uniform(0.0, 1.0, n),
        "false_positive": draw.choice([0.0, 0.05, 0.2, 0.4]),
        "false_negative": draw.choice([0.0, 0.1, 0.3]),
    }
    return Case(f"{n} shares", inputs)


def edges() -> tuple[Case, ...]:
    """By hand, one kind of error alone, none, beyond the possible."""

    def case(name: str, measured: list[float], positive: float, negative: float) -> Case:
        values = torch.tensor(measured, dtype=torch.float64)
        inputs = {"measured": values, "false_positive": positive, "false_negative": negative}
        return Case(name, inputs)

    return (
        case("by hand", [0.5], 0.2, 0.1),
        case("a perfect verifier", [0.0, 0.3, 1.0], 0.0, 0.0),
        case("false positives alone", [0.6], 0.2, 0.0),
        case("false negatives alone", [0.6], 0.0, 0.2),
        case("fewer than the false positives", [0.1], 0.2, 0.1),
        case("more than is possible", [0.95], 0.2, 0.1),
        case("nothing is right", [0.2], 0.2, 0.1),
        case("several", [0.25, 0.5, 0.75], 0.1, 0.3),
    )


CHECK = Check(
    id="rlvr.noise.1",
    outputs=(Output("accuracy", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "false positives subtracted",
            "(measured - false_positive) / (1 - false_positive - false_negative)",
            "measured - false_positive",
            "the rate of false positives is simply subtracted: it applies to the wrong "
            "answers only, and right ones are lost too",
        ),
        edit(
            "both rates added up",
            "(measured - false_positive) / (1 - false_positive - false_negative)",
            "measured - false_positive + false_negative",
            "the two rates are subtracted and added as if each applied to all answers: "
            "one applies to the wrong ones, the other to the right ones",
        ),
        edit(
            "false negatives forgotten",
            " - false_negative)",
            ")",
            "`false_negative` has no effect: right answers that are turned away are missing",
        ),
        edit(
            "false positives forgotten",
            "(measured - false_positive) / (1 - false_positive - false_negative)",
            "measured / (1 - false_negative)",
            "`false_positive` has no effect: wrong answers that passed are counted as right",
        ),
        edit(
            "rates exchanged",
            "(measured - false_positive)",
            "(measured - false_negative)",
            "the two rates are exchanged: a false positive is a wrong answer that passes",
        ),
        edit(
            "a sign in the divisor",
            "- false_negative)",
            "+ false_negative)",
            "the divisor is 1 - false_positive - false_negative: both errors shrink the slope",
        ),
        edit(
            "not held within 0 and 1",
            ".clamp(0.0, 1.0)",
            "",
            "a sample may show less than the false positives alone: hold the result within 0 and 1",
        ),
        edit(
            "forwards",
            "    return found",
            "    found = measured * (1 - false_negative) + (1 - measured) * "
            "false_positive\n"
            "    return found",
            "this computes what the verifier would show for a true accuracy of "
            "`measured`; the question is the other way round",
        ),
        edit(
            "as measured",
            "found.clamp(0.0, 1.0)",
            "measured.clone()",
            "the measured share is returned: what does a verifier show for answers that "
            "are all wrong?",
        ),
    ),
    not_tested="where the two rates come from, and their own uncertainty.",
)
