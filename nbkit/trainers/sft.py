"""Stage 1: learn to answer from demonstrations, by maximum likelihood of the answers alone."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from nbkit._inputs import check_number
from nbkit.data.encode import Example
from nbkit.logprobs import next_token_logprobs
from nbkit.masks import aggregate, position_ids
from nbkit.packing import token_budget_batches

Metrics = dict[str, float]


@dataclass(frozen=True)
class SFTConfig:
    """Settings of supervised fine-tuning.

    Attributes:
        steps: gradient steps.
        batch_size: examples a step; each epoch is a new permutation.
        learning_rate: peak for AdamW, with a linear decay to a tenth.
        warmup: steps of linear warm-up.
        weight_decay: of AdamW.
        max_grad_norm: clip of the global gradient norm.
        mask_prompt: the loss counts answers only. False also teaches to write prompts.
        micro_tokens: budget (rows x longest) of one forward pass; None: a batch at once. It changes
            memory and speed, not the gradient.

    """

    steps: int = 400
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup: int = 20
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    mask_prompt: bool = True
    micro_tokens: int | None = None

    def __post_init__(self) -> None:
        check_number("steps", self.steps, 1)
        check_number("batch_size", self.batch_size, 1)
        check_number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check_number("warmup", self.warmup, 0)
        check_number("weight_decay", self.weight_decay, 0.0)
        check_number("max_grad_norm", self.max_grad_norm, 0.0, open_low=True)
        if self.micro_tokens is not None:
            check_number("micro_tokens", self.micro_tokens, 1)


def sft_batch(
    examples: Sequence[Example],
    pad_id: int,
    device: torch.device | str = "cpu",
    *,
    mask_prompt: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return examples as one padded batch.

    Args:
        examples: B of them; L is the longest, prompt and answer together.
        pad_id: stands behind the end of shorter ones.
        device: of the tensors.
        mask_prompt: only the ids of answers count.

    Returns:
        ids (B, L); attention (B, L) bool; counted (B, L) bool, True on ids that the loss predicts.
        The first id of a row is never predicted.

    Raises:
        ValueError: no examples, or one without an answer.

    """
    if not examples:
        raise ValueError("examples: an empty list has no batch")
    if not all(example.answer_ids for example in examples):
        raise ValueError("examples: an answer without ids has nothing to learn")
    rows = [[*example.prompt_ids, *example.answer_ids] for example in examples]
    width = max(map(len, rows))
    ids = torch.tensor([row + [pad_id] * (width - len(row)) for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    starts = torch.tensor([len(example.prompt_ids) for example in examples], device=device)
    places = torch.arange(width, device=device)
    attention = places < lengths[:, None]
    first = starts.clamp(min=1) if mask_prompt else torch.ones_like(starts)
    return ids, attention, attention & (places >= first[:, None])


def answer_logprobs(model: Any, ids: Tensor, attention: Tensor, counted: Tensor) -> Tensor:
    """Log-probabilities (B, L-1) of the ids from the second on, 0 where they do not count."""
    logits = model(
        input_ids=ids,
        attention_mask=attention.long(),
        position_ids=position_ids(attention),
        use_cache=False,
    ).logits
    return next_token_logprobs(logits, ids, mask=counted)


def sft_loss(
    model: Any,
    ids: Tensor,
    attention: Tensor,
    counted: Tensor,
    *,
    total_tokens: Tensor | float | None = None,
) -> Tensor:
    """Mean negative log-probability of the ids that count, in nats a token.

    Args:
        model: a causal language model of transformers.
        ids: (B, L).
        attention: (B, L).
        counted: (B, L).
        total_tokens: that count in the whole batch, where this is a part of it.

    """
    logp = answer_logprobs(model, ids, attention, counted)
    return -aggregate(logp, counted[:, 1:], "token-mean", total_tokens=total_tokens)


def train(
    model: Any,
    examples: Sequence[Example],
    config: SFTConfig,
    *,
    pad_id: int,
    generator: torch.Generator,
    progress: bool = True,
    parallel: Any = None,
) -> list[Metrics]:
    """Train ``model`` in place; return the metrics of each step.

    Args:
        model: a causal language model of transformers.
        examples: to learn from.
        config: settings.
        pad_id: of the padding.
        generator: of the order of the examples, on the CPU; the same on every rank.
        progress: show a text progress bar.
        parallel: a ``nbkit.parallel.Parallel``, not prepared yet: spreads the model over the ranks,
            each of which takes its rows of every batch.

    Returns:
        "step", "loss" (nats a token), "gradient_norm" (before clipping), "learning_rate".

    Raises:
        RuntimeError: a gradient that is not finite; no step is taken on it.
        ValueError: fewer examples a step than ranks.

    """

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
        groups = [{"params": list(parameters)}]
        return adamw(groups, config.learning_rate, weight_decay=config.weight_decay)

    mine = slice(None)
    if parallel is None:
        device = next(model.parameters()).device
        optimiser: Any = make(model.parameters())
    else:
        rank, size, device = parallel.world.rank, parallel.world.size, parallel.world.device
        if config.batch_size < size:
            raise ValueError(
                f"batch_size is {config.batch_size}, but there are {size} ranks, and each needs an "
                "example"
            )
        mine = slice(rank, None, size)
        parallel.prepare(model, make)
        model, optimiser = parallel.model, parallel.optimiser
    order = endless(len(examples), generator)
    history: list[Metrics] = []
    for step in tqdm(range(config.steps), desc="SFT", disable=not progress, mininterval=5):
        rate = schedule(step, config.steps, config.learning_rate, config.warmup)
        optimiser.param_groups[0]["lr"] = rate
        chosen = [examples[next(order)] for _ in range(config.batch_size)][mine]
        batches = [
            sft_batch([chosen[i] for i in part], pad_id, device, mask_prompt=config.mask_prompt)
            for part in parts_of(chosen, config.micro_tokens)
        ]
        total = sum(int(counted.sum()) for _, _, counted in batches)
        if parallel is None:
            loss, norm = _step(model, batches, total, optimiser, config.max_grad_norm)
        else:
            loss, norm = _parallel_step(parallel, batches, total, config.max_grad_norm)
        history.append(
            {"step": step + 1.0, "loss": loss, "gradient_norm": norm, "learning_rate": rate}
        )
    return history


Batch = tuple[Tensor, Tensor, Tensor]


def _step(
    model: Any, batches: Sequence[Batch], total: int, optimiser: Any, max_grad_norm: float
) -> tuple[float, float]:
    """One step on one device: the loss of the batch, and the gradient's norm."""
    optimiser.zero_grad()
    loss = 0.0
    for batch in batches:
        part_loss = sft_loss(model, *batch, total_tokens=total)
        part_loss.backward()
        loss += part_loss.item()
    return loss, clipped_step(optimiser, max_grad_norm)


def _parallel_step(
    parallel: Any, batches: Sequence[Batch], own: int, max_grad_norm: float
) -> tuple[float, float]:
    """The same step over ranks: each divides its sum by the tokens of all."""
    (total,) = parallel.total(own)
    loss = 0.0
    for batch in parallel.parts(batches):
        part_loss = sft_loss(parallel.model, *(batch or batches[0]), total_tokens=total)
        if batch is None:  # other ranks have one more: a pass that adds nothing
            part_loss = 0.0 * part_loss
        parallel.backward(part_loss)
        loss += part_loss.item()
    return parallel.total(loss)[0], parallel.step(max_grad_norm)


@torch.no_grad()
def evaluate(
    model: Any, examples: Sequence[Example], *, pad_id: int, batch_size: int = 256
) -> float:
    """Mean negative log-probability of the answers, in nats a token of them."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for start in range(0, len(examples), batch_size):
        batch = sft_batch(examples[start : start + batch_size], pad_id, device)
        total -= answer_logprobs(model, *batch).double().sum().item()
        tokens += int(batch[2].sum())
    return total / tokens


def schedule(step: int, steps: int, peak: float, warmup: int) -> float:
    """Learning rate of a step counted from 0: linear warm-up, linear decay to a tenth."""
    warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
    return peak * warm * max(0.1, 1 - step / steps)


def adamw(
    groups: list[dict[str, Any]],
    learning_rate: float,
    *,
    betas: tuple[float, float] = (0.9, 0.95),
    weight_decay: float = 0.0,
) -> torch.optim.AdamW:
    """AdamW; on a GPU its fused form, which needs no memory beside the moments."""
    on_gpu = groups[0]["params"][0].is_cuda
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=betas, weight_decay=weight_decay, fused=on_gpu or None
    )


def clipped_step(optimiser: Any, max_grad_norm: float | None) -> float:
    """Clip the gradient, take the step, return the norm before clipping.

    Raises:
        RuntimeError: a norm that is not finite; no step is taken on it.

    """
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, max_grad_norm or math.inf).item()
    if not math.isfinite(norm):
        raise RuntimeError(
            f"the gradient's norm is {norm}; look at the learning rate, and for ids or scores that "
            "are out of range in this batch"
        )
    optimiser.step()
    return norm


def parts_of(examples: Sequence[Example], micro_tokens: int | None) -> list[list[int]]:
    """Numbers of the examples of each forward pass; each example exactly once."""
    if micro_tokens is None:
        return [list(range(len(examples)))]
    lengths = [len(example.prompt_ids) + len(example.answer_ids) for example in examples]
    return token_budget_batches(lengths, micro_tokens)


def endless(count: int, generator: torch.Generator) -> Iterator[int]:
    """Numbers below ``count`` without end; each epoch is a new permutation."""
    if count < 1:
        raise ValueError("examples: an empty list has nothing to learn from")
    while True:
        yield from torch.randperm(count, generator=generator).tolist()
