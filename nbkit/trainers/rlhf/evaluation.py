"""Judge a policy: rewards and divergence on given questions, and samples for a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from nbkit.generate import Generation, answer
from nbkit.generate.weights import causal
from nbkit.text.protocols import Problem, Vocabulary
from nbkit.trainers.completions import Policy, Scorer, scored_tokens
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.sampling import as_completions
from nbkit.trainers.scoring import Completion, RewardFunction, score


@dataclass(frozen=True)
class Sample:
    """A completion with all that a page shows of it.

    Attributes:
        problem: what was asked.
        completion: what was answered.
        scores: name to score.
        tokens: the words of the completion, its end mark included.
        kl: log pi - log reference of each of them, nats.

    """

    problem: Problem
    completion: Completion
    scores: Mapping[str, float]
    tokens: list[str]
    kl: list[float]


def draw(
    policy: Policy,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    *,
    samples: int = 1,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    seed: int = 0,
) -> tuple[Generation, list[Problem], list[Completion]]:
    """Answer each problem `samples` times.

    Returns:
        the generation; the problem of each row; the completion of each row.

    """
    made = answer(
        causal(policy), vocabulary, problems,
        max_new_tokens=max_new_tokens, temperature=temperature, seeds=seed, group_size=samples,
    )  # fmt: skip
    each = [problem for problem in problems for _ in range(samples)]
    return made, each, as_completions(made, vocabulary)


def evaluate(
    policy: Policy,
    reference: Scorer,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    rewards: Mapping[str, RewardFunction],
    *,
    samples: int = 8,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    seed: int = 0,
    micro_tokens: int | None = None,
) -> dict[str, float]:
    """Return the mean of each reward, "kl" (nats a completion), "length" and "truncated".

    Args:
        policy: a language model, or a ``SharedActorCritic``.
        reference: the model that "kl" is measured from.
        vocabulary: of prompts and completions.
        problems: what is asked.
        rewards: name to reward function, such as the judge and the reward model.
        samples: completions of each problem.
        max_new_tokens: their limit.
        temperature: of the sampling; "kl" is that of the tempered policies.
        seed: of the sampling.
        micro_tokens: budget of one forward pass; None: all at once.

    """
    made, each, completions = draw(
        policy, vocabulary, problems,
        samples=samples, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
    )  # fmt: skip
    difference = _log_ratio(policy, reference, made, temperature, micro_tokens)
    result = {}
    for name, reward in rewards.items():
        numbers = [n for n in score(reward, each, completions)[0] if not math.isnan(n)]
        result[name] = sum(numbers) / max(1, len(numbers))
    return {
        **result,
        "kl": difference.sum(1).mean().item(),
        "length": made.lengths.double().mean().item(),
        "truncated": made.truncated.double().mean().item(),
    }


def sample_table(
    policy: Policy,
    reference: Scorer,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    rewards: Mapping[str, RewardFunction],
    *,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[Sample]:
    """Answer each problem once; return texts, scores and the divergence of every token."""
    made, each, completions = draw(
        policy, vocabulary, problems,
        max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
    )  # fmt: skip
    difference = _log_ratio(policy, reference, made, temperature, None).tolist()
    scores = {name: score(reward, each, completions)[0] for name, reward in rewards.items()}
    table = []
    for i, (problem, completion) in enumerate(zip(each, completions, strict=True)):
        words = [_word(vocabulary, token) for token in completion.ids]
        table.append(
            Sample(
                problem,
                completion,
                {name: numbers[i] for name, numbers in scores.items()},
                words,
                difference[i][: len(words)],
            )
        )
    return table


def _word(vocabulary: Vocabulary, token: int) -> str:
    return "<eos>" if token == vocabulary.eos_id else vocabulary.decode([token])


def _log_ratio(
    policy: Policy,
    reference: Scorer,
    made: Generation,
    temperature: float,
    micro_tokens: int | None,
) -> torch.Tensor:
    """log pi - log reference of each sampled token, (R, T) float64, 0 outside the mask."""
    config = RLHFConfig(temperature=temperature, micro_tokens=micro_tokens)
    arguments = (None, made.ids, made.attention, made.mask, config)
    ours, _ = scored_tokens(policy, *arguments)
    theirs, _ = scored_tokens(reference, *arguments)
    return torch.where(made.mask, ours - theirs, 0.0).double()
