"""From prompts to a batch with rewards and advantages: sampling, scoring, filtering, shaping."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from nbkit.advantages import discounted_returns, group_advantages, whiten
from nbkit.generate import Generation
from nbkit.masks import place_sequence_reward
from nbkit.parallel import Parallel
from nbkit.rewards.compose import Composed
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.data_order import PromptStream
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.sampling import as_completions, sample
from nbkit.trainers.scoring import (
    Note,
    RewardFunction,
    Tally,
    has_signal,
    overlong_penalty,
    score,
    take_notes,
)
from nbkit.trainers.shares import (
    everyone_s,
    join_generations,
    own_prompts,
    spread_over,
    whole_generation,
)

__all__ = [
    "GroupBatch",
    "PromptStream",
    "advantages",
    "assemble",
    "count_completions",
    "sample_batch",
]


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
    return assemble(kept, config, vocabulary.pad_id), tally.metrics()


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
    made = sample(model, vocabulary, here, config, seeds)
    sampled = time.perf_counter()
    completions = as_completions(made, vocabulary)
    each = [problem for problem in here for _ in range(size)]
    numbers, composed = score(reward_fn, each, completions)
    made = whole_generation(made, vocabulary.pad_id, parallel)
    numbers, composed = everyone_s((numbers, composed), parallel)
    tally.generate_seconds += sampled - start
    tally.reward_seconds += time.perf_counter() - sampled
    tally.rounds += 1
    rows = count_completions(tally, made, len(asked), numbers, composed)
    scores = torch.tensor(numbers, dtype=torch.float32, device=made.tokens.device)
    return made, scores, take_notes(asked, rows, numbers, composed)


def count_completions(
    tally: Tally,
    made: Generation,
    groups: int,
    numbers: Sequence[float],
    composed: Sequence[Composed | None],
) -> list[list[int]]:
    """Add what was sampled and scored to a tally; return the ids of the completions.

    Args:
        tally: is added to.
        made: R completions.
        groups: that they stand in.
        numbers: R rewards, NaN where there is none.
        composed: R parts of rewards, None where there are none.

    """
    cut, rows = made.truncated.tolist(), made.lists()
    tally.completions += len(rows)
    tally.groups += groups
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
    return rows


def assemble(
    kept: list[tuple[Generation, Tensor, Tensor]], config: GRPOConfig, pad_id: int
) -> GroupBatch:
    """Rows of several rounds in one batch: prompts end, completions begin, in one column.

    Args:
        kept: of each round what was sampled, a reward a row (NaN: none), and the rows to keep.
        config: shaping of the rewards.
        pad_id: fills shorter rows.

    """
    whole = join_generations([made.rows(rows) for made, _, rows in kept], pad_id)
    raw = torch.cat([rewards[rows] for _, rewards, rows in kept])
    valid = ~raw.isnan()
    shaped = raw + overlong_penalty(
        whole.lengths, config.max_new_tokens, config.overlong_buffer, config.overlong_penalty
    )
    counted = valid & ~whole.truncated if config.mask_truncated else valid
    return GroupBatch(
        ids=whole.ids,
        attention=whole.attention,
        mask=whole.mask & counted[:, None],
        logprobs=whole.logprobs,
        rewards=torch.where(valid, shaped, 0.0),
        raw_rewards=raw,
        valid=valid,
        truncated=whole.truncated,
        advantages=torch.zeros_like(whole.logprobs),
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
