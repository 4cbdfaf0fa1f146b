"""score.offpolicy.1: a loss for samples of another policy."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="score.offpolicy.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "no weights",
            "ratios *",
            "logprobs *",
            "`behaviour_logprobs` has no effect: this is the on-policy loss, which takes the "
            "samples for the policy's own",
        ),
        edit(
            "ratio cut off",
            "exp()",
            "exp().detach()",
            "the value is right, but the ratio is detached as a whole, so nothing is "
            "learned: its numerator is where the gradient comes from",
        ),
        edit(
            "weight times log-probability",
            "(ratios * rewards.detach())",
            "(ratios.detach() * rewards.detach() * logprobs)",
            "the gradient is right, the value is not: ratio (detached) times log-probability "
            "has the gradient of the estimate, but asked for is the estimate itself, ratio "
            "times reward",
        ),
        edit(
            "ratio upside down",
            "ratios * rewards.detach()",
            "(rewards.detach() / ratios)",
            "the ratio is upside down: new probability over old, so that samples that have "
            "become likelier count more",
        ),
        edit(
            "log-ratio",
            "ratios *",
            "(logprobs - behaviour_logprobs.detach()) *",
            "the log-ratio stands where the ratio belongs: exp is missing. Near the old "
            "policy the gradients agree, which is why nobody notices",
        ),
        edit(
            "opposite sign",
            "return -",
            "return ",
            "the sign is wrong: optimisers descend, so the loss is minus the estimated reward",
        ),
        edit(
            "sum instead of mean",
            ".mean",
            ".sum",
            "the terms are summed: divide by the number of samples, or the step grows with "
            "the batch",
        ),
        edit(
            "self-normalised",
            ".mean",
            ".sum() / ratios.sum",
            "the weights are divided by their sum: that estimate has less variance and a "
            "bias, and is another one; here divide by the number of samples",
        ),
        edit(
            "raw logits",
            "torch.log_softmax(logits, dim=0)",
            "logits",
            "logits are not log-probabilities: the normaliser is missing, so use log_softmax",
        ),
        edit(
            "product of the means",
            "rewards.",
            "rewards.detach().mean().",
            "the mean ratio multiplies the mean reward; each reward must meet the ratio of "
            "its own sample first",
        ),
        edit(
            "behaviour not detached",
            "behaviour_logprobs.detach()",
            "behaviour_logprobs",
            "a gradient flows into `behaviour_logprobs`: the old policy is data, so detach it",
        ),
        edit(
            "rewards not detached",
            "rewards.detach()",
            "rewards",
            "a gradient flows into `rewards`: a reward is a number from outside, so detach it",
        ),
    ),
    not_tested="clipping, baselines, and what happens far from the old policy.",
    gradient_to=("logits",),
    no_gradient_to=("behaviour_logprobs", "rewards"),
    wide=(
        "logits",
        "behaviour_logprobs",
        "rewards",
    ),
)
