"""rlvr.passk.1: pass@k without bias."""

import math
from fractions import Fraction

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """One minus the chance that k of the samples, drawn without replacement, are all wrong."""
    wrong = samples - correct
    if wrong < k:
        return 1.0
    return 1.0 - math.prod((wrong - i) / (samples - i) for i in range(k))


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


def _with_replacement(samples: int, correct: int, k: int) -> float:
    return 1 - (1 - correct / samples) ** k


def _k_times(samples: int, correct: int, k: int) -> float:
    return min(1.0, k * correct / samples)


def _first(samples: int, correct: int, k: int) -> float:
    return correct / samples


def _any(samples: int, correct: int, k: int) -> float:
    return float(correct > 0)


def _all_right(samples: int, correct: int, k: int) -> float:
    if correct < k:
        return 0.0
    return math.prod((correct - i) / (samples - i) for i in range(k))


def _all_wrong(samples: int, correct: int, k: int) -> float:
    return 1.0 - pass_at_k(samples, correct, k)


def _one_factor_less(samples: int, correct: int, k: int) -> float:
    wrong = samples - correct
    if wrong < k:
        return 1.0
    return 1.0 - math.prod((wrong - i) / (samples - i) for i in range(k - 1))


def _denominator_fixed(samples: int, correct: int, k: int) -> float:
    wrong = samples - correct
    if wrong < k:
        return 1.0
    return 1.0 - math.prod((wrong - i) / samples for i in range(k))


def _floats_of_comb(samples: int, correct: int, k: int) -> float:
    if samples - correct < k:
        return 1.0
    return 1.0 - float(math.comb(samples - correct, k)) / float(math.comb(samples, k))


def _nothing_for_few_wrong(samples: int, correct: int, k: int) -> float:
    return 0.0 if samples - correct < k else pass_at_k(samples, correct, k)


PASS_AT_K = Exercise(
    id="rlvr.passk.1",
    title="pass@k without bias",
    chapter=23,
    difficulty=2,
    minutes=15,
    goal=(
        "From `correct` right answers among `samples`, the unbiased estimate of the chance that at "
        "least one of k answers is right; a Python float."
    ),
    outputs=(Output("estimate", "a float", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=pass_at_k,
    mutants=(
        Mutant(
            "with replacement",
            _with_replacement,
            "this is 1 - (1 - c/n)^k, a draw with replacement: it is biased, for k near n badly. "
            "Draw k of the n samples without replacement",
        ),
        Mutant(
            "k times",
            _k_times,
            "the chance of one is multiplied by k: several of the k may be right at once",
        ),
        Mutant(
            "k ignored", _first, "`k` has no effect: this is pass@1, the share of right answers"
        ),
        Mutant(
            "any of all",
            _any,
            "it asks whether any of all the samples is right: that is pass@n, not pass@k",
        ),
        Mutant(
            "all right",
            _all_right,
            "this is the chance that all k are right; at least one is enough",
        ),
        Mutant(
            "all wrong",
            _all_wrong,
            "this is the chance that all k are wrong: one minus it",
        ),
        Mutant(
            "a factor too few",
            _one_factor_less,
            "the product has k - 1 factors: one for each of the k draws",
        ),
        Mutant(
            "denominator fixed",
            _denominator_fixed,
            "the number of samples left does not shrink: after i draws there are samples - i",
        ),
        Mutant(
            "binomials as floats",
            _floats_of_comb,
            "a binomial coefficient does not fit into a float for large numbers: divide factor by "
            "factor, or stay with whole numbers",
        ),
        Mutant(
            "zero where few are wrong",
            _nothing_for_few_wrong,
            "with fewer wrong samples than k one of the k must be right: the answer is 1 there",
        ),
    ),
    not_tested="the spread of the estimate over problems.",
)
