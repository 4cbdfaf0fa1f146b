"""dpo.optimum.1: the best policy for a reward and a KL penalty, in closed form."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="dpo.optimum.1",
    outputs=(Output("logp", "(A,)"), Output("reward", "()"), Output("kl", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the reference is left out",
            "ref_logp + rewards",
            "rewards",
            "the reference takes no part in the policy: it multiplies the weights, so its "
            "log-probability is added to reward over beta",
        ),
        edit(
            "times beta",
            "rewards / beta",
            "(rewards * beta)",
            "the reward is multiplied by beta; a short leash is a large beta, so the "
            "reward is divided by it",
        ),
        edit(
            "not normalised",
            "torch.log_softmax(ref_logp + rewards / beta, dim=-1)",
            "ref_logp + rewards / beta",
            "the weights are not normalised: subtract the log of their sum",
        ),
        edit(
            "a probability is added",
            "ref_logp +",
            "ref_logp.exp() +",
            "the probability of the reference is added to reward over beta; in the "
            "exponent stands its logarithm",
        ),
        edit(
            "the KL the other way round",
            "p * (logp - ref_logp)",
            "ref_logp.exp() * (ref_logp - logp)",
            "the KL is that of the reference from the policy: average the log-ratio over "
            "the new policy's answers",
        ),
        edit(
            "the objective for the reward",
            "return logp, (p * rewards).sum(), (p * (logp - ref_logp)).sum()",
            "kl = (p * (logp - ref_logp)).sum()\n"
            "    return logp, (p * rewards).sum() - beta * kl, kl",
            "`reward` is the whole objective; return the mean reward alone, before the penalty",
        ),
        edit(
            "averaged over the reference",
            "p * r",
            "ref_logp.exp() * r",
            "the mean reward is that of the reference's answers: average over the new policy",
        ),
        edit(
            "exp before the largest is gone",
            "torch.log_softmax(ref_logp + rewards / beta, dim=-1)",
            "ref_logp.exp() * torch.exp(rewards / beta)\n    logp = (logp / logp.sum()).log()",
            "exp(reward / beta) overflows at a small beta: stay with logarithms and let "
            "log_softmax do the normalising",
        ),
    ),
    not_tested="answers that the reference never gives, and more than one prompt.",
    wide=(
        "ref_logp",
        "rewards",
    ),
)
