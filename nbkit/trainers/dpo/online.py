"""Online DPO: pairs of the policy's own answers of now, labelled by a reward function.

DPO learns from pairs that another model wrote once. Here each update samples answers to some
prompts, takes the best and the worst of each group for a pair, and makes one step of the same loss
(Guo et al., arXiv:2402.04792, with a reward function in the place of their model that judges).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.generate.weights import unwrap
from nbkit.parallel import Parallel
from nbkit.runs.samples import Sample
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.dpo.batch import PairBatch, PairScores, pair_scores
from nbkit.trainers.dpo.config import DPOConfig
from nbkit.trainers.dpo.loss import pair_metrics
from nbkit.trainers.dpo.update import accumulate_pairs
from nbkit.trainers.grpo.batch import GroupBatch, sample_batch
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.model_checks import SAMPLES_OTHERWISE, check_no_dropout, check_trainable
from nbkit.trainers.optimisation import adamw_of, set_rate
from nbkit.trainers.samples import batch_as_data, noted_samples
from nbkit.trainers.scoring import Note, RewardFunction
from nbkit.trainers.shares import check_share, spread_over
from nbkit.trainers.watch import silent_steps


@dataclass(frozen=True)
class OnlineDPOConfig:
    """Settings of a run.

    Attributes:
        sampling: of the answers: prompts, group size, limit, temperature, dtype of the sampler.
            Its number of updates is that of the run; its other settings are not read.
        dpo: of the loss and of the optimiser; its steps and its batch size are not read.

    """

    sampling: GRPOConfig = field(default_factory=lambda: GRPOConfig(group_size=2))
    dpo: DPOConfig = field(default_factory=DPOConfig)

    def __post_init__(self) -> None:
        check_number("sampling.group_size", self.sampling.group_size, 2)


def best_and_worst(batch: GroupBatch, group_size: int) -> tuple[Tensor, Tensor]:
    """The rows of a batch that make pairs: of each group the highest and the lowest reward.

    A group without two different rewards gives no pair; answers without a reward take no part.

    Returns:
        rows of the chosen (B,) and of the rejected answers (B,), B at most the number of groups.

    """
    rewards = batch.rewards.view(-1, group_size)
    there = batch.valid.view(-1, group_size)
    highest, best = torch.where(there, rewards, -torch.inf).max(1)
    lowest, worst = torch.where(there, rewards, torch.inf).min(1)
    first = torch.arange(len(rewards), device=rewards.device) * group_size
    differ = highest > lowest
    return (first + best)[differ], (first + worst)[differ]


def pairs_of(batch: GroupBatch, chosen: Tensor, rejected: Tensor) -> PairBatch:
    """These rows as a batch of pairs, whose prompts are padded on the left."""
    rows = torch.cat([chosen, rejected])
    before = batch.ids.shape[1] - batch.mask.shape[1]
    mask = torch.nn.functional.pad(batch.mask[rows], (before, 0), value=False)
    return PairBatch(batch.ids[rows], batch.attention[rows], mask)


class OnlineDPOTrainer(StreamTrainer):
    """A run: everything that the next update depends on, so that it can be written down.

    Args:
        model: a causal language model of transformers, trained in place, in evaluation mode.
        vocabulary: ``encode``, ``decode``, ``eos_id`` and ``pad_id``.
        problems: each with a ``prompt``, or with ``prompt_ids``.
        reward_fn: as of ``GRPOTrainer``; only the order of its rewards in a group counts.
        config: settings.
        reference: the frozen model of the loss; None if its kind reads none.
        generator: source of all randomness.
        parallel: not prepared yet: spreads the models over the ranks, each of which makes this
            trainer with the same arguments. None: one device.

    Attributes:
        history: the metrics of each update.
        batch: the last one; None before the first update.
        notes: of its rows.

    Raises:
        ValueError: frozen parameters; dropout that is on; fewer prompts than ranks; a reference
            that is missing or is the policy itself.

    """

    description = "online DPO"

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction,
        config: OnlineDPOConfig,
        *,
        reference: LanguageModel | None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        self.model: Any = unwrap(model)
        frozen = None
        if config.dpo.reads_reference:
            if reference is None:
                raise ValueError(f"reference: the loss {config.dpo.kind!r} reads one; give a copy")
            frozen = unwrap(reference)
        if frozen is self.model:
            raise ValueError(
                "reference: it must be a model of its own (a frozen copy), or every log-ratio is 0"
            )
        check_trainable("model", self.model)
        check_no_dropout("model", self.model, SAMPLES_OTHERWISE)
        self.vocabulary, self.problems, self.reward_fn = vocabulary, problems, reward_fn
        spread = spread_over(parallel, self.model)
        check_share("prompts", config.sampling.prompts, spread, "samples answers to a prompt")
        spread.prepare(self.model, adamw_of(config.dpo, betas=config.dpo.betas, fused=False))
        self.reference: Any = None if frozen is None else spread.frozen(frozen)
        self.batch: GroupBatch | None = None
        self.notes: list[Note] = []
        super().__init__(config, len(problems), generator, {"model": spread})

    @property
    def planned(self) -> int:
        """Updates in all."""
        return int(self.config.sampling.updates)

    def learning_rate(self, number: int) -> float:
        """The learning rate of update `number`, counted from 0."""
        return float(self.config.dpo.rate(number, self.planned))

    def accumulate(
        self, batch: GroupBatch, chosen: Tensor, rejected: Tensor
    ) -> tuple[float, PairScores, PairScores | None]:
        """Add the gradient of the pairs to ``.grad``; return the loss and both models' scores."""

        def stacked(part: list[int]) -> PairBatch:
            return pairs_of(batch, chosen[part], rejected[part])

        @torch.no_grad()
        def scored(_: list[int], pairs: PairBatch) -> PairScores:
            return pair_scores(self.reference, pairs)

        return accumulate_pairs(
            self.parallel,
            len(chosen),
            int(batch.mask[chosen].sum()),
            self.config.dpo,
            stacked=stacked,
            scored=scored,
        )

    def step(self) -> Metrics:
        """Sample, pair, take one step; return the metrics of this update, taken before it.

        "pairs" counts the groups whose rewards differ. An update without any takes no step.
        """
        sampling, rate = self.config.sampling, self.learning_rate(self.done)
        set_rate(self.parallel.optimiser, rate)
        self.notes = []
        with self.parallel.gathered() as whole:
            batch, sampled = sample_batch(
                whole, self.vocabulary, self.problems, self.stream, self.reward_fn, sampling,
                parallel=self.parallel, notes=self.notes,
            )  # fmt: skip
        self.batch = batch
        start = time.perf_counter()
        chosen, rejected = best_and_worst(batch, sampling.group_size)
        learned: Metrics = {}
        self.refused = None
        if len(chosen):
            loss, scores, reference = self.accumulate(batch, chosen, rejected)
            norm = self.parallel.try_step(self.config.dpo.max_grad_norm)
            if not math.isfinite(norm):
                self.refused = batch_as_data(batch, gradient_norm=norm)
            learned = {
                "loss": loss,
                **pair_metrics(scores, reference, self.config.dpo.beta, kind=self.config.dpo.kind),
                "gradient_norm": norm,
                "skipped": float(self.refused is not None),
            }
        return self.note(
            {
                "update": self.done + 1.0,
                **sampled,
                "pairs": float(len(chosen)),
                **learned,
                "silent_steps": silent_steps(self.history, not len(chosen)),
                "learning_rate": rate,
                "seconds/update": time.perf_counter() - start,
            }
        )

    def samples(self, count: int) -> list[Sample]:
        """As in ``Trainer``; spread evenly over the rows of the batch."""
        return noted_samples(self.batch, self.notes, self.vocabulary, count)

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"reward {metrics['reward']:.2f}"
