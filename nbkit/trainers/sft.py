"""Stage 1: learn to answer from demonstrations, by maximum likelihood of the answers alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbkit.data.encode import Example
from nbkit.logprobs import next_token_logprobs
from nbkit.masks import aggregate
from nbkit.parallel import Parallel
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import LanguageModel
from nbkit.trainers.data_order import endless
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.micro import check_micro, cut
from nbkit.trainers.optimisation import adamw_of, schedule, set_rate
from nbkit.trainers.shares import backward_parts, check_share, spread_over
from nbkit.trainers.supervised import SupervisedConfig

__all__ = [
    "SFTConfig",
    "SFTTrainer",
    "answer_logprobs",
    "endless",
    "evaluate",
    "schedule",
    "sft_batch",
    "sft_loss",
]


@dataclass(frozen=True)
class SFTConfig(SupervisedConfig):
    """Settings of supervised fine-tuning, beside those of ``SupervisedConfig``.

    Attributes:
        mask_prompt: the loss counts answers only. False also teaches to write prompts.
        micro_rows: rows of one forward pass on one device, in place of ``micro_tokens``.

    """

    mask_prompt: bool = True
    micro_rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_micro(self.micro_tokens, self.micro_rows)


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


def answer_logprobs(
    model: LanguageModel, ids: Tensor, attention: Tensor, counted: Tensor
) -> Tensor:
    """Log-probabilities (B, L-1) of the ids from the second on, 0 where they do not count."""
    logits = model(**model_inputs(ids, attention)).logits
    return next_token_logprobs(logits, ids, mask=counted)


def sft_loss(
    model: LanguageModel,
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


class SFTTrainer(StreamTrainer):
    """A run of supervised fine-tuning.

    Args:
        model: a causal language model of transformers, trained in place.
        examples: to learn from.
        config: settings.
        pad_id: of the padding.
        generator: of the order of the examples, on the CPU; the same on every rank.
        parallel: not prepared yet: spreads the model over the ranks, each of which makes this
            trainer with the same arguments and takes its rows of every batch. None: one device.

    Raises:
        ValueError: fewer examples a step than ranks; a model whose parameters are all frozen.

    """

    description = "SFT"
    data = "examples"
    save_every = 50

    def __init__(
        self,
        model: LanguageModel,
        examples: Sequence[Example],
        config: SFTConfig,
        *,
        pad_id: int,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        net: Any = model
        spread = spread_over(parallel, model)
        check_share("batch_size", config.batch_size, spread, "needs an example")
        spread.prepare(net, adamw_of(config))
        super().__init__(config, len(examples), generator, {"model": spread})
        self.examples, self.pad_id = examples, pad_id

    @property
    def planned(self) -> int:
        """Steps in all."""
        return self.config.steps

    def step(self) -> Metrics:
        """Learn from one batch; return the metrics of this step.

        "tokens" are those of all ranks that the loss predicts.

        Returns:
            "step", "loss" (nats a token), "gradient_norm" (before clipping), "learning_rate",
            "skipped": 1 if loss or gradient is not finite and no step was taken.

        """
        config, parallel, world = self.config, self.parallel, self.parallel.world
        rate = schedule(self.done, config.steps, config.learning_rate, config.warmup)
        set_rate(parallel.optimiser, rate)
        every = [self.examples[i] for i in self.stream.take(config.batch_size)]
        own = every[world.rank :: world.size]
        lengths = [len(example.prompt_ids) + len(example.answer_ids) for example in own]
        batches = [
            sft_batch(
                [own[i] for i in part], self.pad_id, world.device, mask_prompt=config.mask_prompt
            )
            for part in cut(lengths, config.micro_tokens, config.micro_rows)
        ]
        # The tokens of all ranks: the mean of the ranks' means would weigh tokens differently.
        (tokens,) = parallel.total(sum(int(counted.sum()) for _, _, counted in batches))
        loss = 0.0

        def run(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, None]:
            return sft_loss(parallel.model, *batch, total_tokens=tokens), None

        for part_loss, _ in backward_parts(parallel, batches, batches[0], run):
            loss += part_loss.item()
        norm = parallel.try_step(config.max_grad_norm)
        ids = [(list(one.prompt_ids), list(one.answer_ids)) for one in every]
        self.refused = None if math.isfinite(norm) else {"examples": ids, "gradient_norm": norm}
        return self.note(
            {
                "step": self.done + 1.0,
                "tokens": tokens,
                "loss": parallel.total(loss)[0],
                "gradient_norm": norm,
                "skipped": float(self.refused is not None),
                "learning_rate": rate,
            }
        )

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"loss {metrics['loss']:.3f}"


@torch.no_grad()
def evaluate(
    model: LanguageModel, examples: Sequence[Example], *, pad_id: int, batch_size: int = 256
) -> float:
    """Mean negative log-probability of the answers, in nats a token of them."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for start in range(0, len(examples), batch_size):
        batch = sft_batch(examples[start : start + batch_size], pad_id, device)
        total -= answer_logprobs(model, *batch).double().sum().item()
        tokens += int(batch[2].sum())
    return total / tokens
