"""score.offpolicy.1: a loss for samples of another policy."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def off_policy_loss(
    logits: Tensor, actions: Tensor, behaviour_logprobs: Tensor, rewards: Tensor
) -> Tensor:
    """Minus the importance-weighted mean reward; only the numerator of the ratio is a variable."""
    logprobs = torch.log_softmax(logits, dim=0)[actions]
    ratios = (logprobs - behaviour_logprobs.detach()).exp()
    return -(ratios * rewards.detach()).mean()


def oracle(
    logits: list[float], actions: list[int], behaviour_logprobs: list[float], rewards: list[float]
) -> float:
    """Probabilities, a ratio for each sample, and an average."""
    top = max(logits)
    total = math.fsum(math.exp(x - top) for x in logits)
    terms = [
        math.exp(logits[a] - top) / total / math.exp(old) * reward
        for a, old, reward in zip(actions, behaviour_logprobs, rewards, strict=True)
    ]
    return -math.fsum(terms) / len(terms)


def cases(draw: Draw) -> Case:
    """A few arms, a few samples, behaviour probabilities of any size."""
    arms, n = draw.dimension(low=2), draw.dimension()
    inputs = {
        "logits": draw.normal(arms),
        "actions": draw.integers(0, arms - 1, n),
        "behaviour_logprobs": -draw.uniform(0.1, 2.5, n),
        "rewards": draw.normal(n),
    }
    return Case(f"{arms} arms, {n} samples", inputs)


def edges() -> tuple[Case, ...]:
    """Paper, one sample, the policy itself, and large logits."""

    def case(
        name: str, logits: list[float], actions: list[int], old: list[float], rewards: list[float]
    ) -> Case:
        inputs = {
            "logits": torch.tensor(logits, dtype=torch.float64),
            "actions": torch.tensor(actions),
            "behaviour_logprobs": torch.tensor(old, dtype=torch.float64),
            "rewards": torch.tensor(rewards, dtype=torch.float64),
        }
        return Case(name, inputs)

    half, quarter = math.log(0.5), math.log(0.25)
    return (
        case(
            "four pulls by hand",
            [0.0, 0.0, math.log(2)],
            [0, 0, 1, 2],
            [half, half, quarter, quarter],
            [1.0, 1.0, 2.0, 4.0],
        ),
        case("one sample", [0.3, -0.2], [1], [-1.0], [2.0]),
        case("the policy itself", [0.0, 0.0], [0, 1, 1], [half, half, half], [1.0, -2.0, 5.0]),
        case("rewards of zero", [0.5, 0.0], [0, 1], [-0.2, -1.5], [0.0, 0.0]),
        case("large logits", [1000.0, 1001.0], [0, 1, 1], [half, half, half], [1.0, 2.0, -1.0]),
    )


def _ratios(logits: Tensor, actions: Tensor, behaviour_logprobs: Tensor) -> Tensor:
    logprobs = torch.log_softmax(logits, dim=0)[actions]
    return (logprobs - behaviour_logprobs.detach()).exp()


def _on_policy(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -(torch.log_softmax(logits, dim=0)[actions] * rewards.detach()).mean()


def _ratio_cut(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -(_ratios(logits, actions, old).detach() * rewards.detach()).mean()


def _weighted_logprob(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    logprobs = torch.log_softmax(logits, dim=0)[actions]
    return -(_ratios(logits, actions, old).detach() * rewards.detach() * logprobs).mean()


def _upside_down(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -(rewards.detach() / _ratios(logits, actions, old)).mean()


def _log_ratio(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    logprobs = torch.log_softmax(logits, dim=0)[actions]
    return -((logprobs - old.detach()) * rewards.detach()).mean()


def _plus(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -off_policy_loss(logits, actions, old, rewards)


def _sum(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return off_policy_loss(logits, actions, old, rewards) * len(actions)


def _self_normalised(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    ratios = _ratios(logits, actions, old)
    return -(ratios * rewards.detach()).sum() / ratios.sum()


def _raw_logits(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -((logits[actions] - old.detach()).exp() * rewards.detach()).mean()


def _product_of_means(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -_ratios(logits, actions, old).mean() * rewards.detach().mean()


def _old_not_detached(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    ratios = (torch.log_softmax(logits, dim=0)[actions] - old).exp()
    return -(ratios * rewards.detach()).mean()


def _rewards_not_detached(logits: Tensor, actions: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    return -(_ratios(logits, actions, old) * rewards).mean()


OFFPOLICY = Exercise(
    id="score.offpolicy.1",
    title="A loss for somebody else's samples",
    chapter=1,
    difficulty=2,
    minutes=15,
    goal=(
        "Minus the importance-weighted mean reward, whose gradient in the logits is minus the "
        "off-policy estimate of the policy gradient; the data are constants."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=off_policy_loss,
    gradient_to=("logits",),
    no_gradient_to=("behaviour_logprobs", "rewards"),
    mutants=(
        Mutant(
            "no weights",
            _on_policy,
            "`behaviour_logprobs` has no effect: this is the on-policy loss, which takes the "
            "samples for the policy's own",
        ),
        Mutant(
            "ratio cut off",
            _ratio_cut,
            "the value is right, but the ratio is detached as a whole, so nothing is learned: its "
            "numerator is where the gradient comes from",
        ),
        Mutant(
            "weight times log-probability",
            _weighted_logprob,
            "the gradient is right, the value is not: ratio (detached) times log-probability has "
            "the gradient of the estimate, but asked for is the estimate itself, ratio times "
            "reward",
        ),
        Mutant(
            "ratio upside down",
            _upside_down,
            "the ratio is upside down: new probability over old, so that samples that have become "
            "likelier count more",
        ),
        Mutant(
            "log-ratio",
            _log_ratio,
            "the log-ratio stands where the ratio belongs: exp is missing. Near the old policy the "
            "gradients agree, which is why nobody notices",
        ),
        Mutant(
            "opposite sign",
            _plus,
            "the sign is wrong: optimisers descend, so the loss is minus the estimated reward",
        ),
        Mutant(
            "sum instead of mean",
            _sum,
            "the terms are summed: divide by the number of samples, or the step grows with the "
            "batch",
        ),
        Mutant(
            "self-normalised",
            _self_normalised,
            "the weights are divided by their sum: that estimate has less variance and a bias, "
            "and is another one; here divide by the number of samples",
        ),
        Mutant(
            "raw logits",
            _raw_logits,
            "logits are not log-probabilities: the normaliser is missing, so use log_softmax",
        ),
        Mutant(
            "product of the means",
            _product_of_means,
            "the mean ratio multiplies the mean reward; each reward must meet the ratio of its own "
            "sample first",
        ),
        Mutant(
            "behaviour not detached",
            _old_not_detached,
            "a gradient flows into `behaviour_logprobs`: the old policy is data, so detach it",
        ),
        Mutant(
            "rewards not detached",
            _rewards_not_detached,
            "a gradient flows into `rewards`: a reward is a number from outside, so detach it",
        ),
    ),
    not_tested="clipping, baselines, and what happens far from the old policy.",
)
