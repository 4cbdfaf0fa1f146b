"""Direct preference optimisation: learn from pairs of answers, with neither rewards nor sampling.

A step is three functions: stack the pairs (``dpo_batch.pair_batch``), score them
(``dpo_batch.pair_scores``), compare with the reference (``dpo_loss.dpo_loss``).
"""

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.data.encode import EncodedPair
from nbkit.generate.weights import unwrap
from nbkit.parallel import Parallel
from nbkit.trainers.dpo.batch import (
    PairScores,
    check_pairs,
    pair_batch,
    pair_scores,
    refused_pairs,
    score_pairs,
)
from nbkit.trainers.dpo.config import DPOConfig
from nbkit.trainers.dpo.loss import dpo_loss, pair_metrics
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.model_checks import check_no_dropout, check_trainable
from nbkit.trainers.optimisation import adamw, set_rate
from nbkit.trainers.protocols import LanguageModel, Metrics
from nbkit.trainers.spread import backward_parts, check_share, interleaved, spread_over

_DIFFER_BY_NOISE = "so that policy and reference differ by noise before the first step"


class DPOTrainer(StreamTrainer):
    """A run: everything that the next step depends on, so that it can be written down.

    Args:
        model: a causal language model of transformers, trained in place, in evaluation mode.
        pairs: what to learn from.
        config: settings.
        reference: the frozen model; None: the model as it stands now, which then scores all pairs
            before it moves (no second model is kept).
        pad_id: fills short rows.
        generator: of the order of the pairs; the same on every rank.
        parallel: not prepared yet: spreads the models over the ranks, each of which makes this
            trainer with the same arguments and takes its pairs of every batch. None: one device.

    Attributes:
        history: the metrics of each step.
        reference_scores: of all pairs, or None where they are made on the fly.

    Raises:
        ValueError: pairs with nothing to compare; a reference that is missing or is the policy
            itself, though it is to be scored on the fly; frozen parameters; dropout that is on;
            fewer pairs a step than ranks.

    """

    description = "DPO"
    data = "pairs"
    save_every = 50

    def __init__(
        self,
        model: LanguageModel,
        pairs: Sequence[EncodedPair],
        config: DPOConfig,
        *,
        reference: LanguageModel | None = None,
        pad_id: int,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        self.model: Any = unwrap(model)
        frozen = None if reference is None else unwrap(reference)
        if not config.precompute and (frozen is None or frozen is self.model):
            raise ValueError(
                "reference: scored on the fly it must be a model of its own (a frozen copy), or "
                "every log-ratio is 0 for ever; give one, or set precompute"
            )
        check_trainable("model", self.model)
        for name, one in (("model", self.model), ("reference", frozen)):
            if one is not None:
                check_no_dropout(name, one, _DIFFER_BY_NOISE)
        check_pairs(pairs)
        spread = spread_over(parallel, self.model)
        self.batch_size = min(config.batch_size, len(pairs))
        check_share("batch_size", self.batch_size, spread, "needs a pair")
        if frozen is self.model:
            frozen = None
        self.reference: Any = None if frozen is None else spread.frozen(frozen)
        spread.prepare(
            self.model,
            lambda parameters: adamw(
                parameters,
                config.learning_rate,
                betas=config.betas,
                weight_decay=config.weight_decay,
                fused=False,
            ),
        )
        super().__init__(config, len(pairs), generator, {"model": spread})
        self.pairs, self.pad_id, self.device = pairs, pad_id, spread.world.device
        self.reference_scores: PairScores | None = None
        if config.precompute:  # by the model itself before it moves, where there is no other
            scorer = spread.model if self.reference is None else self.reference
            self.reference_scores = self._score_all(scorer)

    def _score_all(self, scorer: LanguageModel) -> PairScores:
        """The scores of all pairs; each rank makes every size-th, and all get the whole."""
        world, size = self.parallel.world, self.config.micro_pairs or self.config.batch_size
        own = self.pairs[world.rank :: world.size]
        parts: list[PairScores] = []
        cuts = [own[start : start + size] for start in range(0, len(own), size)]
        for part in self.parallel.parts(cuts):
            scores = score_pairs(
                scorer, part or own[:1], self.pad_id, batch_size=size, device=self.device
            )
            if part is not None:  # else other ranks needed this one's shards
                parts.append(scores)
        return self._whole(_joined(parts))

    def _whole(self, own: PairScores) -> PairScores:
        """Scores that ranks made of every size-th of some pairs, in the order of the pairs."""
        every = self.parallel.everyone(tuple(field.cpu() for field in own))
        fields = [interleaved(parts) for parts in zip(*every, strict=True)]
        return PairScores(*(field.to(self.device) for field in fields))

    @property
    def planned(self) -> int:
        """Steps in all."""
        return self.config.steps

    def learning_rate(self, number: int) -> float:
        """The learning rate of step `number`, counted from 0."""
        config = self.config
        if number < config.warmup:
            return config.learning_rate * (number + 1) / config.warmup
        done = (number - config.warmup) / max(1, config.steps - config.warmup)
        left = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        return config.learning_rate * left[config.schedule]

    def scores_of_reference(self, rows: list[int]) -> PairScores:
        """The reference's scores of some pairs, looked up or made now."""
        if self.reference_scores is not None:
            return self.reference_scores.rows(torch.tensor(rows, device=self.device))
        pairs = [self.pairs[row] for row in rows]
        return score_pairs(
            self.reference, pairs, self.pad_id, batch_size=len(pairs), device=self.device
        )

    def accumulate(self, rows: list[int]) -> tuple[float, PairScores, PairScores]:
        """Add the gradient of a batch to ``.grad``; return its loss and both models' scores.

        Each rank computes every size-th of the rows; loss and scores are those of all.
        """
        config, parallel, world = self.config, self.parallel, self.parallel.world
        tokens = sum(len(self.pairs[row].chosen_ids) for row in rows)
        seen: list[PairScores] = []
        fixed: list[PairScores] = []
        own, total = rows[world.rank :: world.size], 0.0
        size = config.micro_pairs or len(own)

        def run(part: list[int]) -> tuple[Tensor, tuple[PairScores, PairScores]]:
            batch = pair_batch([self.pairs[row] for row in part], self.pad_id, self.device)
            scores = pair_scores(parallel.model, batch)
            reference = self.scores_of_reference(part)
            loss: Tensor = dpo_loss(scores, reference, config).sum() / len(rows)
            if config.sft_coefficient:
                loss = loss - config.sft_coefficient * scores.chosen.sum() / tokens
            return loss, (PairScores(*(field.detach() for field in scores)), reference)

        parts = [own[i : i + size] for i in range(0, len(own), size)]
        for loss, (scores, reference) in backward_parts(parallel, parts, own[:1], run):
            total += loss.item()
            seen.append(scores)
            fixed.append(reference)
        whole, reference = (self._whole(_joined(parts)) for parts in (seen, fixed))
        return parallel.total(total)[0], whole, reference

    def step(self) -> Metrics:
        """Learn from one batch of pairs; return the metrics of this step, taken before it.

        "skipped" is 1 if loss or gradient is not finite and no step was taken.
        """
        start, rate = time.perf_counter(), self.learning_rate(self.done)
        set_rate(self.parallel.optimiser, rate)
        rows = self.stream.take(self.batch_size)
        loss, scores, reference = self.accumulate(rows)
        norm = self.parallel.try_step(self.config.max_grad_norm)
        self.refused = refused_pairs([self.pairs[row] for row in rows], norm)
        before = self.history[-1]["pairs"] if self.history else 0.0
        return self.note(
            {
                "step": self.done + 1.0,
                "pairs": before + len(rows),
                "loss": loss,
                **pair_metrics(scores, reference, self.config.beta),
                "gradient_norm": norm,
                "skipped": float(self.refused is not None),
                "learning_rate": rate,
                "seconds/step": time.perf_counter() - start,
            }
        )

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"loss {metrics['loss']:.3f}, accuracy {metrics['accuracy']:.2f}"

    def state_dict(self) -> dict[str, Any]:
        """Return everything but pairs and models, as tensors and plain data.

        The reference's scores are part of it: a resumed policy has moved and could not make them.
        """
        scores = self.reference_scores
        return super().state_dict() | {"reference_scores": None if scores is None else list(scores)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        super().load_state_dict(state)
        scores = state["reference_scores"]
        if scores is not None:
            self.reference_scores = PairScores(*(field.to(self.device) for field in scores))


def _joined(parts: list[PairScores]) -> PairScores:
    return PairScores(*(torch.cat(fields) for fields in zip(*parts, strict=True)))


def train(
    model: LanguageModel,
    pairs: Sequence[EncodedPair],
    config: DPOConfig,
    *,
    reference: LanguageModel | None = None,
    pad_id: int,
    generator: torch.Generator,
    parallel: Parallel | None = None,
    **run: Any,
) -> list[Metrics]:
    """Train ``model`` in place; return one dictionary of metrics a step.

    Args:
        model: see ``DPOTrainer``, as for all but the last.
        pairs: what to learn from.
        config: settings.
        reference: the frozen model; None: the model as it stands now.
        pad_id: fills short rows.
        generator: of the order of the pairs.
        parallel: where the models are spread over several devices.
        run: arguments of ``DPOTrainer.run``.

    """
    trainer = DPOTrainer(
        model, pairs, config,
        reference=reference, pad_id=pad_id, generator=generator, parallel=parallel,
    )  # fmt: skip
    return trainer.run(**run)
