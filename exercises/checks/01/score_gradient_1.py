"""score.gradient.1: the exact policy gradient of a bandit."""

import math

from score_bandit import case, cases, probabilities

from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(logits: list[float], rewards: list[float]) -> list[float]:
    """The sum over all arms of reward times the derivative of their probability."""
    pi = probabilities(logits)
    return [
        math.fsum(
            rewards[k] * pi[k] * ((1.0 if k == a else 0.0) - pi[a]) for k in range(len(logits))
        )
        for a in range(len(logits))
    ]


def edges() -> tuple[Case, ...]:
    """The chapter's machine, one arm, equal rewards, and logits whose exp overflows."""
    return (
        case("the machine of the chapter", [math.log(2), 0.0, 0.0], [1.0, 2.0, 4.0]),
        case("one arm", [0.7], [3.0]),
        case("equal rewards", [0.3, -0.5, 1.0], [2.0, 2.0, 2.0]),
        case("four arms, negative rewards", [0.5, -1.0, 0.0, 1.5], [-1.0, -2.0, 3.0, -0.5]),
        case("huge logits", [1000.0, 1001.0, 999.0], [1.0, 2.0, -1.0]),
    )


CHECK = Check(
    id="score.gradient.1",
    outputs=(Output("gradient", "(K,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "mean reward not taken off",
            "rewards - (probabilities * rewards).sum()",
            "rewards",
            "the expected reward is missing: raising one logit lowers the other "
            "probabilities, so an arm is worth what it pays above the policy's average",
        ),
        edit(
            "probability left out",
            "probabilities * (rewards - (probabilities * rewards).sum())",
            "rewards - (probabilities * rewards).sum()",
            "the factor of the arm's own probability is missing: a logit of an arm that is "
            "hardly ever pulled hardly matters",
        ),
        edit(
            "opposite sign",
            "rewards - (probabilities * rewards).sum()",
            "((probabilities * rewards).sum() - rewards)",
            "the sign is wrong: this is the gradient of minus the expected reward, the "
            "direction in which the reward falls",
        ),
        edit(
            "plain mean of the rewards",
            "* rewards",
            "* rewards.mean()",
            "the rewards are averaged with equal weights; the average that counts is the "
            "policy's own, each reward times its probability",
        ),
        edit(
            "diagonal of the Jacobian only",
            ".sum()",
            "",
            "only the arm's own probability is differentiated: a softmax moves all the "
            "others as well, and their rewards enter with -pi_a * pi_k",
        ),
        edit(
            "exp without its largest entry",
            "probabilities * r",
            "logits.exp() / logits.exp().sum() * r",
            "the softmax overflows: exp of a logit of 1000 is inf and inf/inf is nan; use "
            "torch.softmax, which takes off the largest logit first",
        ),
        edit(
            "gradient in the probabilities",
            "probabilities * (rewards - (probabilities * rewards).sum())",
            "rewards",
            "this is the derivative with respect to the probabilities, as if they could be "
            "moved one by one; go on to the logits by the chain rule",
        ),
        edit(
            "probability squared",
            "return probabilities",
            "return probabilities.square()",
            "the probability of the arm enters twice: weighting the score by it is right, "
            "and the derivative of a probability already holds that weight once",
        ),
    ),
    not_tested="more than one decision, and logits that are minus infinity.",
    wide=(
        "logits",
        "rewards",
    ),
)
