"""rlvr.passk.1: pass@k without bias."""

import math
from fractions import Fraction

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(samples: int, correct: int, k: int) -> float:
    """Count the subsets, in whole numbers."""
    silent = math.comb(samples - correct, k)
    return float(1 - Fraction(silent, math.comb(samples, k)))


def cases(draw: Draw) -> Case:
    """A few samples, or many."""
    samples = draw.integer(1, draw.choice([4, 12, 200]))
    inputs = {
        "samples": samples,
        "correct": draw.integer(0, samples),
        "k": draw.integer(1, samples),
    }
    return Case(f"{inputs['correct']} of {samples}, k = {inputs['k']}", inputs)


def edges() -> tuple[Case, ...]:
    """By hand, none right, all right, fewer wrong than k, k = samples, large numbers."""

    def case(samples: int, correct: int, k: int) -> Case:
        return Case(
            f"{correct} of {samples}, k = {k}",
            {"samples": samples, "correct": correct, "k": k},
        )

    return (
        case(4, 1, 1),
        case(4, 1, 2),
        case(4, 2, 2),
        case(4, 0, 2),
        case(4, 4, 1),
        case(4, 3, 2),
        case(4, 1, 4),
        case(1, 0, 1),
        case(10, 3, 3),
        case(2000, 3, 1000),
        case(2000, 700, 5),
    )


CHECK = Check(
    id="rlvr.passk.1",
    outputs=(Output("estimate", "a float", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "with replacement",
            "    wrong = samples - correct\n",
            "    return 1 - (1 - correct / samples) ** k\n    wrong = samples - correct\n",
            "this is 1 - (1 - c/n)^k, a draw with replacement: it is biased, for k near n "
            "badly. Draw k of the n samples without replacement",
        ),
        edit(
            "k times",
            "    wrong = samples - correct\n",
            "    return min(1.0, k * correct / samples)\n    wrong = samples - correct\n",
            "the chance of one is multiplied by k: several of the k may be right at once",
        ),
        edit(
            "k ignored",
            "    wrong = samples - correct\n",
            "    return correct / samples\n    wrong = samples - correct\n",
            "`k` has no effect: this is pass@1, the share of right answers",
        ),
        edit(
            "any of all",
            "    wrong = samples - correct\n",
            "    return float(correct > 0)\n    wrong = samples - correct\n",
            "it asks whether any of all the samples is right: that is pass@n, not pass@k",
        ),
        edit(
            "all right",
            "    wrong = samples - correct\n",
            "    if correct < k:\n"
            "        return 0.0\n"
            "    return math.prod((correct - i) / (samples - i) for i in range(k))\n"
            "    wrong = samples - correct\n",
            "this is the chance that all k are right; at least one is enough",
        ),
        edits(
            "all wrong",
            ("return 1.0\n", "return 0.0\n"),
            ("return 1.0 - math", "return math"),
            message="this is the chance that all k are wrong: one minus it",
        ),
        edit(
            "a factor too few",
            "range(k)",
            "range(k - 1)",
            "the product has k - 1 factors: one for each of the k draws",
        ),
        edit(
            "denominator fixed",
            "(samples - i)",
            "samples",
            "the number of samples left does not shrink: after i draws there are samples - i",
        ),
        edit(
            "binomials as floats",
            "math.prod((wrong - i) / (samples - i) for i in range(k))",
            "float(math.comb(wrong, k)) / float(math.comb(samples, k))",
            "a binomial coefficient does not fit into a float for large numbers: divide "
            "factor by factor, or stay with whole numbers",
        ),
        edit(
            "zero where few are wrong",
            "return 1.0\n",
            "return 0.0\n",
            "with fewer wrong samples than k one of the k must be right: the answer is 1 there",
        ),
    ),
    not_tested="the spread of the estimate over problems.",
)
