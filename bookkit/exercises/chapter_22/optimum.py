"""dpo.optimum.1: the best policy for a reward and a KL penalty, in closed form."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]


def optimum(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    """Reference times exp(reward / beta), normalised; its mean reward; its distance."""
    logp = torch.log_softmax(ref_logp + rewards / beta, dim=-1)
    p = logp.exp()
    return logp, (p * rewards).sum(), (p * (logp - ref_logp)).sum()


def oracle(
    ref_logp: list[float], rewards: list[float], beta: float
) -> tuple[list[float], float, float]:
    """Weights relative to the best answer, so that nothing overflows; then plain sums."""
    scores = [logp + reward / beta for logp, reward in zip(ref_logp, rewards, strict=True)]
    top = max(scores)
    total = math.fsum(math.exp(score - top) for score in scores)
    logp = [score - top - math.log(total) for score in scores]
    rows = list(zip(logp, ref_logp, rewards, strict=True))
    value = math.fsum(math.exp(new) * reward for new, _, reward in rows)
    kl = math.fsum(math.exp(new) * (new - old) for new, old, _ in rows)
    return logp, value, kl


def _inputs(logits: Tensor, rewards: Tensor, beta: float) -> dict[str, object]:
    return {"ref_logp": torch.log_softmax(logits, -1), "rewards": rewards, "beta": beta}


def cases(draw: Draw) -> Case:
    """A handful of answers."""
    n = draw.dimension(2)
    return Case(
        f"{n} answers",
        _inputs(draw.normal(n), draw.normal(n), draw.choice([0.1, 0.5, 1.0, 2.0])),
    )


def edges() -> tuple[Case, ...]:
    """Two answers on paper, equal rewards, a tiny beta, a hard choice."""

    def case(name: str, odds: list[float], rewards: list[float], beta: float) -> Case:
        logits = torch.tensor(odds, dtype=torch.float64).log()
        return Case(name, _inputs(logits, torch.tensor(rewards, dtype=torch.float64), beta))

    return (
        case("one answer", [1.0], [2.0], 0.5),
        case("two answers by hand", [3.0, 1.0], [0.0, math.log(3.0)], 1.0),
        case("the rare one is better", [9.0, 1.0], [0.0, 1.0], 0.25),
        case("equal rewards", [3.0, 1.0, 1.0], [2.0, 2.0, 2.0], 0.5),
        case("beta of two", [3.0, 1.0, 2.0], [1.0, -1.0, 0.5], 2.0),
        case("a tiny beta", [1.0, 2.0], [1.0, 3.0], 0.001),
    )


def _pair(logp: Tensor, ref_logp: Tensor, rewards: Tensor) -> Triple:
    p = logp.exp()
    return logp, (p * rewards).sum(), (p * (logp - ref_logp)).sum()


def _no_reference(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    return _pair(torch.log_softmax(rewards / beta, -1), ref_logp, rewards)


def _times_beta(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    return _pair(torch.log_softmax(ref_logp + rewards * beta, -1), ref_logp, rewards)


def _not_normalised(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    return _pair(ref_logp + rewards / beta, ref_logp, rewards)


def _probabilities(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    return _pair(torch.log_softmax(ref_logp.exp() + rewards / beta, -1), ref_logp, rewards)


def _turned_kl(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    logp, value, _ = optimum(ref_logp, rewards, beta)
    return logp, value, (ref_logp.exp() * (ref_logp - logp)).sum()


def _objective(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    logp, value, kl = optimum(ref_logp, rewards, beta)
    return logp, value - beta * kl, kl


def _weighted_by_reference(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    logp, _, kl = optimum(ref_logp, rewards, beta)
    return logp, (ref_logp.exp() * rewards).sum(), kl


def _greedy(ref_logp: Tensor, rewards: Tensor, beta: float) -> Triple:
    weights = ref_logp.exp() * torch.exp(rewards / beta)
    return _pair(torch.log(weights / weights.sum()), ref_logp, rewards)


OPTIMUM = Exercise(
    id="dpo.optimum.1",
    title="The best policy for a reward and a leash",
    chapter=22,
    difficulty=2,
    minutes=20,
    goal=(
        "The policy over a few answers that maximises mean reward minus beta times its KL from the "
        "reference: its log-probabilities, its mean reward, its KL."
    ),
    outputs=(Output("logp", "(A,)"), Output("reward", "()"), Output("kl", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=optimum,
    mutants=(
        Mutant(
            "the reference is left out",
            _no_reference,
            "the reference takes no part in the policy: it multiplies the weights, so its "
            "log-probability is added to reward over beta",
        ),
        Mutant(
            "times beta",
            _times_beta,
            "the reward is multiplied by beta; a short leash is a large beta, so the reward is "
            "divided by it",
        ),
        Mutant(
            "not normalised",
            _not_normalised,
            "the weights are not normalised: subtract the log of their sum",
        ),
        Mutant(
            "a probability is added",
            _probabilities,
            "the probability of the reference is added to reward over beta; in the exponent "
            "stands its logarithm",
        ),
        Mutant(
            "the KL the other way round",
            _turned_kl,
            "the KL is that of the reference from the policy: average the log-ratio over the "
            "new policy's answers",
        ),
        Mutant(
            "the objective for the reward",
            _objective,
            "`reward` is the whole objective; return the mean reward alone, before the penalty",
        ),
        Mutant(
            "averaged over the reference",
            _weighted_by_reference,
            "the mean reward is that of the reference's answers: average over the new policy",
        ),
        Mutant(
            "exp before the largest is gone",
            _greedy,
            "exp(reward / beta) overflows at a small beta: stay with logarithms and let "
            "log_softmax do the normalising",
        ),
    ),
    not_tested="answers that the reference never gives, and more than one prompt.",
)
