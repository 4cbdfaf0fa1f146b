"""From prompts to a batch of PPO: sampling, scoring, KL in the reward, advantages."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from nbkit.advantages import token_gae, whiten
from nbkit.generate import Generation
from nbkit.generate.weights import causal
from nbkit.kl import kl_estimate
from nbkit.masks import masked_mean
from nbkit.parallel import Parallel
from nbkit.text.adapters import merged
from nbkit.text.protocols import Problem, Vocabulary
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.completions import Scorer, scored_tokens
from nbkit.trainers.data_order import PromptStream
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.rlhf.scoring import judged_rows, token_rewards
from nbkit.trainers.sampling import as_completions, sample
from nbkit.trainers.scoring import Completion, Note, RewardFunction, score, take_notes
from nbkit.trainers.shares import everyone_s, own_prompts, whole_generation

__all__ = [
    "RLHFBatch",
    "batch_metrics",
    "sample_batch",
    "scored_tokens",
    "token_rewards",
]


@dataclass(frozen=True)
class RLHFBatch:
    """R completions; T is the longest of them, P the longest prompt.

    Attributes:
        ids: (R, P+T) prompts, padded on the left, and completions, padded on the right.
        attention: (R, P+T) bool, True on real tokens.
        mask: (R, T) bool, True on sampled tokens.
        logprobs: (R, T) under the policy that sampled them, as the trainer computes them.
        ref_logprobs: (R, T) under the reference.
        values: (R, T) predicted at sampling time, of the state before each token.
        scores: (R,) of the reward function, before penalties.
        truncated: (R,) bool, the limit ended the completion.
        rewards: (R, T) what each token was paid.
        advantages: (R, T).
        returns: (R, T) targets of the values.

    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    logprobs: Tensor
    ref_logprobs: Tensor
    values: Tensor
    scores: Tensor
    truncated: Tensor
    rewards: Tensor
    advantages: Tensor
    returns: Tensor

    def __len__(self) -> int:
        return self.ids.shape[0]

    def rows(self, index: Tensor) -> "RLHFBatch":
        """The rows of `index`."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})


def sample_batch(
    parallel: Parallel,
    value: ScalarModel | None,
    reference: Scorer,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    stream: PromptStream,
    reward_fn: RewardFunction | ScalarModel,
    config: RLHFConfig,
    *,
    kl_coefficient: float,
    monitors: Mapping[str, RewardFunction],
    notes: list[Note] | None = None,
) -> tuple[RLHFBatch, Metrics, list[Completion]]:
    """Ask, answer, score; return a batch with advantages.

    A completion that the reward function cannot score (None) stays in the batch with an empty mask:
    it teaches nothing, and is counted in "unscored".

    Each rank samples and scores its share of the prompts, and all ranks return the whole batch.

    Args:
        parallel: of the policy.
        value: of the advantages; None: the policy's own values.
        reference: of the divergence.
        vocabulary: of prompts and completions.
        problems: what is asked.
        stream: which of them are next, and the source of the sampling.
        reward_fn: a function of problems and completions, or a reward model on the device.
        config: settings.
        kl_coefficient: what a nat of divergence costs now.
        monitors: what else is measured.
        notes: one is added for each row.

    Returns:
        the batch; its metrics ("kl" is the mean over completions of their summed k1, an unbiased
        estimate of KL(policy || reference) in nats; "entropy" minus the mean log-probability of the
        sampled tokens); the completions.

    """
    start = time.perf_counter()
    asked = [problems[i] for i in stream.take(config.prompts)]
    here, rows, seeds = own_prompts(asked, config.group_size, stream.generator, parallel)
    with parallel.gathered() as whole, merged(whole):
        made = sample(causal(whole), vocabulary, here, config, seeds)
    made = whole_generation(made, vocabulary.pad_id, parallel)
    sampled = time.perf_counter()
    completions = as_completions(made, vocabulary)
    each = [problem for problem in asked for _ in range(config.group_size)]
    composed: list[Any] = []
    if isinstance(reward_fn, ScalarModel):
        scores = judged_rows(reward_fn, made, config, parallel)
        numbers = scores.tolist()
    else:
        numbers, composed = _scored(reward_fn, each, completions, rows, parallel)
        scores = torch.tensor(numbers, dtype=torch.float32, device=made.tokens.device)
    scored = time.perf_counter()
    mask = made.mask & ~scores.isnan()[:, None]
    attention, ids = made.attention, made.ids
    logprobs, values = scored_tokens(
        parallel.model, value, ids, attention, mask, config, parallel=parallel
    )
    ref_logprobs, _ = scored_tokens(
        reference, None, ids, attention, mask, config, parallel=parallel
    )
    kl = kl_estimate(logprobs, ref_logprobs, config.kl_kind, mask=mask)
    rewards = token_rewards(
        scores.nan_to_num(0.0),
        made.truncated,
        kl,
        mask,
        kl_coefficient=kl_coefficient,
        missing_eos_penalty=config.missing_eos_penalty,
        whitened=config.whiten_rewards,
    )
    advantages, returns = token_gae(rewards, values, mask, gamma=config.gamma, lam=config.lam)
    batch = RLHFBatch(
        ids, attention, mask, logprobs, ref_logprobs, values, scores, made.truncated, rewards,
        whiten(advantages, mask) if config.whiten_advantages else advantages, returns,
    )  # fmt: skip
    if notes is not None:
        notes += take_notes(asked, [one.ids for one in completions], numbers, composed)
    metrics = {
        "reward": _mean(numbers),
        **_parts(composed),
        **{
            name: _mean(_scored(judge, each, completions, rows, parallel)[0])
            for name, judge in monitors.items()
        },
        **batch_metrics(batch, made, kl_coefficient),
        "unscored": float(sum(map(math.isnan, numbers))),
        "seconds/generate": sampled - start,
        "seconds/reward": scored - sampled,
        "seconds/prepare": time.perf_counter() - scored,
    }
    return batch, metrics, completions


def _scored(
    judge: RewardFunction,
    problems: list[Problem],
    completions: list[Completion],
    rows: slice,
    parallel: Parallel,
) -> tuple[list[float], list[Any]]:
    """``score`` of all rows; each rank asks for its own."""
    numbers, composed = score(judge, problems[rows], completions[rows])
    numbers, composed = everyone_s((numbers, composed), parallel)
    return numbers, composed


def batch_metrics(batch: RLHFBatch, made: Generation, kl_coefficient: float) -> Metrics:
    """Divergence, entropy, lengths and values of a batch."""
    counted = batch.mask.any(1)
    tokens = batch.mask.sum().clamp(min=1)
    k1 = torch.where(batch.mask, batch.logprobs - batch.ref_logprobs, 0.0).double()
    kl = (k1.sum() / counted.sum().clamp(min=1)).item()
    k3 = masked_mean(
        kl_estimate(batch.logprobs, batch.ref_logprobs, "k3", mask=batch.mask), batch.mask
    )
    sampler = torch.where(batch.mask, batch.logprobs - made.logprobs, 0.0).abs().max()
    return {
        "kl": kl,
        "kl_token": k3.item(),
        "kl_coefficient": kl_coefficient,
        "kl_penalty": kl_coefficient * kl,
        "entropy": (-batch.logprobs.double().sum() / tokens).item(),
        "length": made.lengths.double().mean().item(),
        "truncated": made.truncated.double().mean().item(),
        "tokens": float(made.mask.sum()),
        "value": masked_mean(batch.values, batch.mask).item(),
        "sampler_error": sampler.item(),
    }


def _mean(numbers: Sequence[float]) -> float:
    there = [number for number in numbers if not math.isnan(number)]
    return math.fsum(there) / len(there) if there else math.nan


def _parts(composed: Sequence[Any]) -> Metrics:
    names = dict.fromkeys(name for one in composed if one is not None for name in one.parts)
    return {
        f"reward/{name}": _mean([one.parts[name] for one in composed if one and name in one.parts])
        for name in names
    }
