"""score.baseline.1: the constant baseline of least variance."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def _reach(probabilities: Tensor) -> Tensor:
    """Probability times squared norm of the score, for each arm, (K,)."""
    scores = torch.eye(len(probabilities), dtype=probabilities.dtype) - probabilities
    return probabilities * scores.square().sum(dim=1)


def best_baseline(logits: Tensor, rewards: Tensor) -> Tensor:
    """Mean of the rewards, each weighted by how far its score reaches."""
    probabilities = torch.softmax(logits, dim=0)
    reach = _reach(probabilities)
    if reach.sum() == 0:
        return (probabilities * rewards).sum()
    return (reach * rewards).sum() / reach.sum()


def oracle(logits: list[float], rewards: list[float]) -> float:
    """Find the lowest point of the second moment, a parabola, from three of its values."""
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    pi = [w / math.fsum(weights) for w in weights]

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


def cases(draw: Draw) -> Case:
    """A few arms with rewards of both signs."""
    arms = draw.dimension(low=2)
    return Case(f"{arms} arms", {"logits": draw.normal(arms), "rewards": draw.normal(arms)})


def edges() -> tuple[Case, ...]:
    """The chapter's machine, two arms, equal rewards, and a policy that is certain."""

    def case(name: str, logits: list[float], rewards: list[float]) -> Case:
        inputs = {"logits": logits, "rewards": rewards}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in inputs.items()})

    return (
        case("the machine of the chapter", [math.log(2), 0.0, 0.0], [1.0, 2.0, 4.0]),
        case("two arms", [math.log(3), 0.0], [1.0, 5.0]),
        case("equal rewards", [0.3, -0.5, 1.0], [2.0, 2.0, 2.0]),
        case("four arms, negative rewards", [0.5, -1.0, 0.0, 1.5], [-1.0, -2.0, 3.0, -0.5]),
        case("nearly certain", [4.0, 0.0, 0.5], [10.0, 1.0, -1.0]),
        case("certain: nothing is left to vary", [1000.0, 0.0], [3.0, 7.0]),
        case("one arm", [0.7], [3.0]),
    )


def _weighted(weights: Tensor, rewards: Tensor) -> Tensor:
    total = weights.sum()
    return (weights * rewards).sum() / torch.where(total == 0, 1.0, total)


def _mean_reward(logits: Tensor, rewards: Tensor) -> Tensor:
    return (torch.softmax(logits, dim=0) * rewards).sum()


def _plain_mean(logits: Tensor, rewards: Tensor) -> Tensor:
    return rewards.mean()


def _without_probability(logits: Tensor, rewards: Tensor) -> Tensor:
    pi = torch.softmax(logits, dim=0)
    scores = torch.eye(len(pi), dtype=pi.dtype) - pi
    norms = scores.square().sum(dim=1)
    return _mean_reward(logits, rewards) if norms.sum() == 0 else _weighted(norms, rewards)


def _norm_not_squared(logits: Tensor, rewards: Tensor) -> Tensor:
    pi = torch.softmax(logits, dim=0)
    scores = torch.eye(len(pi), dtype=pi.dtype) - pi
    weights = pi * scores.square().sum(dim=1).sqrt()
    return _mean_reward(logits, rewards) if weights.sum() == 0 else _weighted(weights, rewards)


def _own_entry_only(logits: Tensor, rewards: Tensor) -> Tensor:
    pi = torch.softmax(logits, dim=0)
    weights = pi * (1 - pi).square()
    return _mean_reward(logits, rewards) if weights.sum() == 0 else _weighted(weights, rewards)


def _nan_when_certain(logits: Tensor, rewards: Tensor) -> Tensor:
    reach = _reach(torch.softmax(logits, dim=0))
    return (reach * rewards).sum() / reach.sum()


def _zero_when_certain(logits: Tensor, rewards: Tensor) -> Tensor:
    reach = _reach(torch.softmax(logits, dim=0))
    return (reach * rewards).sum() / (reach.sum() + 1e-12)


def _not_divided(logits: Tensor, rewards: Tensor) -> Tensor:
    reach = _reach(torch.softmax(logits, dim=0))
    return (reach * rewards).sum() if reach.sum() > 0 else _mean_reward(logits, rewards)


BASELINE = Exercise(
    id="score.baseline.1",
    title="The best constant baseline",
    chapter=1,
    difficulty=3,
    minutes=25,
    goal=(
        "The constant that, taken from every reward, gives the one-sample REINFORCE estimate of a "
        "softmax bandit its least total variance; the expected reward where no constant matters."
    ),
    outputs=(Output("baseline", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=best_baseline,
    mutants=(
        Mutant(
            "expected reward",
            _mean_reward,
            "this is the expected reward: a good baseline, not the best one. Weight each reward "
            "also by the squared norm of its score",
        ),
        Mutant(
            "plain mean of the rewards",
            _plain_mean,
            "this is the mean over the arms as if each were pulled equally often; arms count by "
            "how often they are pulled and by how far their score reaches",
        ),
        Mutant(
            "probability left out",
            _without_probability,
            "the squared norms of the scores are the right idea, but each arm must also count by "
            "its probability: an arm that is never pulled adds no variance",
        ),
        Mutant(
            "norm not squared",
            _norm_not_squared,
            "the norm of the score enters plainly: the variance is a mean of squares, so the norm "
            "enters squared",
        ),
        Mutant(
            "own entry of the score only",
            _own_entry_only,
            "only the entry of the pulled arm, 1 - pi_a, is counted: the score e_a - pi also moves "
            "all other logits, and total variance adds up all entries",
        ),
        Mutant(
            "nan where nothing varies",
            _nan_when_certain,
            "a policy that is certain, or has one arm, has a score of zero: 0/0 is nan. Return the "
            "expected reward there",
        ),
        Mutant(
            "an epsilon in the divisor",
            _zero_when_certain,
            "an epsilon in the divisor avoids nan, but then a policy that is certain gets baseline "
            "0; the expected reward is asked for there",
        ),
        Mutant(
            "not divided",
            _not_divided,
            "the weighted sum is not divided by the sum of the weights: for equal rewards the best "
            "baseline must be that reward",
        ),
    ),
    not_tested="baselines that depend on a state, and noise in the rewards (it moves nothing).",
)
