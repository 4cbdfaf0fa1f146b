"""From prompts to a batch with rewards and advantages: sampling, scoring, filtering, shaping."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from nbkit.advantages import discounted_returns, group_advantages, whiten
from nbkit.generate import Generation, clear, generate
from nbkit.masks import place_sequence_reward
from nbkit.parallel import Parallel
from nbkit.trainers.data_order import PromptStream
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.protocols import LanguageModel, Problem, Vocabulary, prompt_ids
from nbkit.trainers.scoring import (
    Completion,
    Note,
    RewardFunction,
    Tally,
    has_signal,
    overlong_penalty,
    score,
    take_notes,
)
from nbkit.trainers.spread import everyone_s, own_prompts, spread_over, whole_generation

__all__ = ["GroupBatch", "PromptStream", "advantages", "sample_batch"]


@dataclass(frozen=True)
class GroupBatch:
    """R completions, groups standing together; T is the longest completion, P the longest prompt.

    Attributes:
        ids: (R, P+T) prompts, padded on the left, and completions, padded on the right.
        attention: (R, P+T) bool, True on real tokens.
        mask: (R, T) bool, True on sampled tokens that take part in the loss.
        logprobs: (R, T) of the sampled tokens, under the tempered distribution they came from.
        rewards: (R,) as the loss sees them, shaping included.
        raw_rewards: (R,) as the reward function gave them; NaN where there is none.
        valid: (R,) whether there is one.
        truncated: (R,) the limit ended the completion.
        advantages: (R, T), 0 where the mask is False.
        ref_logprobs: (R, T) under the reference, or None.

    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    logprobs: Tensor
    rewards: Tensor
    raw_rewards: Tensor
    valid: Tensor
    truncated: Tensor
    advantages: Tensor
    ref_logprobs: Tensor | None = None

    def __len__(self) -> int:
        return self.ids.shape[0]

    def rows(self, index: Tensor) -> "GroupBatch":
        """The rows of `index`."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        there = {name: x[index] for name, x in tensors.items() if x is not None}
        return replace(self, **there)


def sample_batch(
    model: LanguageModel,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    stream: PromptStream,
    reward_fn: RewardFunction,
    config: GRPOConfig,
    *,
    parallel: Parallel | None = None,
    notes: list[Note] | None = None,
) -> tuple[GroupBatch, dict[str, float]]:
    """Ask, answer and score until the batch is full; advantages are still 0.

    Without dynamic sampling that is one round of `config.prompts` prompts. With it, groups whose
    rewards (before shaping) are equal are discarded, and the next round asks for what is missing,
    at least a quarter of a batch. After `max_rounds` the batch stays as it is, perhaps empty.

    Each rank of `parallel` samples and scores its share of the prompts, and all ranks return the
    whole batch. None: one device. To `notes`, where it is given, one is added for each row of the
    batch, and if it has none, for each row of the last round.

    Returns:
        the batch and its metrics; "tokens" counts every sampled token, "discarded_tokens" those
        of groups that were thrown away. "entropy" is minus the mean log-probability of the sampled
        tokens, an unbiased estimate in nats a token. "accuracy" is the mean of the reward's part
        "correct", or without such a part the share of rewards above 0.

    """
    tally, missing = Tally(), config.prompts
    kept: list[tuple[Generation, Tensor, Tensor]] = []
    spread = spread_over(parallel, model)
    least = spread.world.size  # a prompt for each rank
    while missing > 0 and tally.rounds < config.max_rounds:
        count = max(missing, config.prompts // 4, least) if kept else config.prompts
        asked = [problems[i] for i in stream.take(count)]
        made, rewards, told = _round(
            model, vocabulary, asked, reward_fn, config, stream, tally, spread
        )
        valid = ~rewards.isnan()
        signal = has_signal(rewards, valid, config.group_size)
        tally.silent += int((~signal).sum())
        wanted = signal if config.dynamic_sampling else torch.ones_like(signal)
        chosen = wanted.nonzero()[:, 0][:missing]
        missing -= len(chosen)
        size = config.group_size
        rows = (chosen[:, None] * size + torch.arange(size, device=chosen.device)).flatten()
        tally.kept_tokens += int(made.lengths[rows].sum())
        kept.append((made, rewards, rows))
        if notes is not None:
            notes += [told[row] for row in rows.tolist()]
        if not config.dynamic_sampling:
            break
    if notes is not None and not notes:
        notes += told
    return _assemble(kept, config, vocabulary.pad_id), tally.metrics()


def _round(
    model: LanguageModel,
    vocabulary: Vocabulary,
    asked: list[Problem],
    reward_fn: RewardFunction,
    config: GRPOConfig,
    stream: PromptStream,
    tally: Tally,
    parallel: Parallel,
) -> tuple[Generation, Tensor, list[Note]]:
    start = time.perf_counter()
    size = config.group_size
    here, _, seeds = own_prompts(asked, size, stream.generator, parallel)
    made = generate(
        model,
        [prompt_ids(problem, vocabulary) for problem in here],
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        eos_ids=vocabulary.eos_id,
        pad_id=vocabulary.pad_id,
        seeds=seeds,
        group_size=size,
        dtype=torch.bfloat16 if config.sampler_dtype else None,
    )
    if config.release_engine:
        clear(model)
    cut, rows = made.truncated.tolist(), made.lists()
    sampled = time.perf_counter()
    completions = [
        Completion(vocabulary.decode(row), len(row), end, tuple(row))
        for row, end in zip(rows, cut, strict=True)
    ]
    each = [problem for problem in here for _ in range(size)]
    numbers, composed = score(reward_fn, each, completions)
    made = whole_generation(made, vocabulary.pad_id, parallel)
    numbers, composed = everyone_s((numbers, composed), parallel)
    cut, rows = made.truncated.tolist(), made.lists()
    tally.generate_seconds += sampled - start
    tally.reward_seconds += time.perf_counter() - sampled
    tally.rounds += 1
    tally.completions += len(rows)
    tally.groups += len(asked)
    tally.tokens += sum(len(row) for row in rows)
    tally.truncated += sum(cut)
    tally.log_probability += made.logprobs.double().sum().item()
    for number, parts in zip(numbers, composed, strict=True):
        if math.isnan(number):
            tally.unscored += 1
            continue
        tally.reward += number
        right = float(number > 0)
        if parts is not None:
            tally.parts_count += 1
            tally.parts.update(parts.parts)
            right = parts.parts.get("correct", right)
        tally.right += right
    scores = torch.tensor(numbers, dtype=torch.float32, device=made.tokens.device)
    return made, scores, take_notes(asked, rows, numbers, composed)


def _assemble(
    kept: list[tuple[Generation, Tensor, Tensor]], config: GRPOConfig, pad_id: int
) -> GroupBatch:
    """Rows of several rounds in one batch: prompts end, completions begin, in one column."""
    before = max(made.prompt_ids.shape[1] for made, _, _ in kept)
    behind = max(made.tokens.shape[1] for made, _, _ in kept)

    def joined(name: str, left: bool, value: float) -> Tensor:
        parts = []
        for made, _, rows in kept:
            x = getattr(made, name)[rows]
            room = (before if left else behind) - x.shape[1]
            parts.append(torch.nn.functional.pad(x, (room, 0) if left else (0, room), value=value))
        return torch.cat(parts)

    mask = joined("mask", False, False)
    raw = torch.cat([rewards[rows] for _, rewards, rows in kept])
    truncated = torch.cat([made.truncated[rows] for made, _, rows in kept])
    valid = ~raw.isnan()
    lengths = mask.sum(1)
    shaped = raw + overlong_penalty(
        lengths, config.max_new_tokens, config.overlong_buffer, config.overlong_penalty
    )
    counted = valid & ~truncated if config.mask_truncated else valid
    logprobs = joined("logprobs", False, 0.0)
    return GroupBatch(
        ids=torch.cat([joined("prompt_ids", True, pad_id), joined("tokens", False, pad_id)], 1),
        attention=torch.cat([joined("prompt_mask", True, False), mask], 1),
        mask=mask & counted[:, None],
        logprobs=logprobs,
        rewards=torch.where(valid, shaped, 0.0),
        raw_rewards=raw,
        valid=valid,
        truncated=truncated,
        advantages=torch.zeros_like(logprobs),
    )


def advantages(
    rewards: Tensor,
    mask: Tensor,
    config: GRPOConfig,
    *,
    valid: Tensor | None = None,
    kl: Tensor | None = None,
) -> Tensor:
    """The advantage of each token by the rule of the configuration.

    Args:
        rewards: (R,), groups standing together.
        mask: (R, T).
        config: advantage, baseline, scale, whiten, kl_coefficient.
        valid: (R,) False where there is no reward.
        kl: (R, T) what is taken off the reward of each token, before the coefficient; None: 0.

    Returns:
        (R, T), 0 where the mask is 0.

    """
    penalty = torch.zeros(mask.shape, device=rewards.device, dtype=rewards.dtype)
    if kl is not None:
        penalty = config.kl_coefficient * torch.where(mask, kl.to(rewards.dtype), 0.0)
    if config.advantage == "group":
        one_each = group_advantages(
            rewards - penalty.sum(1),
            config.group_size,
            baseline=config.baseline,
            scale=config.scale,
            valid=valid,
        )
        result = torch.where(mask, one_each[:, None].expand(mask.shape), 0.0)
    else:
        per_token = place_sequence_reward(rewards, mask) - penalty
        result = discounted_returns(per_token, 1.0, mask=mask)
    return whiten(result, mask) if config.whiten else result
