"""score.baseline.1: the constant baseline of least variance."""

import math

from score_bandit import case, cases, probabilities

from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(logits: list[float], rewards: list[float]) -> float:
    """Find the lowest point of the second moment, a parabola, from three of its values."""
    pi = probabilities(logits)

    def second_moment(b: float) -> float:
        total = 0.0
        for a in range(len(pi)):
            score = [(1.0 if k == a else 0.0) - pi[k] for k in range(len(pi))]
            total += pi[a] * math.fsum(((rewards[a] - b) * s) ** 2 for s in score)
        return total

    at_minus, at_zero, at_plus = second_moment(-1.0), second_moment(0.0), second_moment(1.0)
    curvature = at_minus - 2 * at_zero + at_plus
    if curvature == 0:
        return math.fsum(p * r for p, r in zip(pi, rewards, strict=True))
    return (at_minus - at_plus) / (2 * curvature)


def edges() -> tuple[Case, ...]:
    """The chapter's machine, two arms, equal rewards, and a policy that is certain."""
    return (
        case("the machine of the chapter", [math.log(2), 0.0, 0.0], [1.0, 2.0, 4.0]),
        case("two arms", [math.log(3), 0.0], [1.0, 5.0]),
        case("equal rewards", [0.3, -0.5, 1.0], [2.0, 2.0, 2.0]),
        case("four arms, negative rewards", [0.5, -1.0, 0.0, 1.5], [-1.0, -2.0, 3.0, -0.5]),
        case("nearly certain", [4.0, 0.0, 0.5], [10.0, 1.0, -1.0]),
        case("certain: nothing is left to vary", [1000.0, 0.0], [3.0, 7.0]),
        case("one arm", [0.7], [3.0]),
    )


CHECK = Check(
    id="score.baseline.1",
    outputs=(Output("baseline", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "expected reward",
            "dim=1",
            "",
            "this is the expected reward: a good baseline, not the best one. Weight each "
            "reward also by the squared norm of its score",
        ),
        edit(
            "plain mean of the rewards",
            "logits,",
            "rewards.mean(),",
            "this is the mean over the arms as if each were pulled equally often; arms count "
            "by how often they are pulled and by how far their score reaches",
        ),
        edit(
            "probability left out",
            "probabilities * scores.square",
            "scores.square",
            "the squared norms of the scores are the right idea, but each arm must also "
            "count by its probability: an arm that is never pulled adds no variance",
        ),
        edit(
            "norm not squared",
            "(dim=1)",
            "(dim=1).sqrt()",
            "the norm of the score enters plainly: the variance is a mean of squares, so the "
            "norm enters squared",
        ),
        edit(
            "own entry of the score only",
            "scores.square().sum(dim=1)",
            "(1 - torch.softmax(logits, dim=0)).square()",
            "only the entry of the pulled arm, 1 - pi_a, is counted: the score e_a - pi also "
            "moves all other logits, and total variance adds up all entries",
        ),
        edit(
            "nan where nothing varies",
            "= 0",
            "= 1",
            "a policy that is certain, or has one arm, has a score of zero: 0/0 is nan. "
            "Return the expected reward there",
        ),
        edit(
            "an epsilon in the divisor",
            "    if weights.sum() == 0:\n"
            "        return (probabilities * rewards).sum()\n"
            "    return (weights * rewards).sum() / weights.sum()",
            "    return (weights * rewards).sum() / (weights.sum() + 1e-12)",
            "an epsilon in the divisor avoids nan, but then a policy that is certain gets "
            "baseline 0; the expected reward is asked for there",
        ),
        edit(
            "not divided",
            " / weights.sum()",
            "",
            "the weighted sum is not divided by the sum of the weights: for equal rewards "
            "the best baseline must be that reward",
        ),
    ),
    not_tested="baselines that depend on a state, and noise in the rewards (it moves nothing).",
    wide=(
        "logits",
        "rewards",
    ),
)
