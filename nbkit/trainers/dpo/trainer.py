"""Direct preference optimisation: learn from pairs of answers, with neither rewards nor sampling.

A step is three functions: stack the pairs (``batch.pair_batch``), score them
(``batch.pair_scores``), compare with the reference (``loss.dpo_loss``).
"""

import time
from collections.abc import Sequence
from typing import Any

import torch

from nbkit.data.encode import EncodedPair
from nbkit.generate.weights import unwrap
from nbkit.parallel import Parallel
from nbkit.text.protocols import LanguageModel
from nbkit.trainers.dpo.batch import (
    PairScores,
    check_pairs,
    pair_batch,
    refused_pairs,
    score_pairs,
)
from nbkit.trainers.dpo.config import DPOConfig
from nbkit.trainers.dpo.loss import pair_metrics
from nbkit.trainers.dpo.update import accumulate_pairs, whole_scores
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.model_checks import check_no_dropout, check_trainable
from nbkit.trainers.optimisation import adamw_of, set_rate
from nbkit.trainers.shares import check_share, spread_over

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
        if not config.reads_reference:
            frozen = None
        elif not config.precompute and (frozen is None or frozen is self.model):
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
        spread.prepare(self.model, adamw_of(config, betas=config.betas, fused=False))
        super().__init__(config, len(pairs), generator, {"model": spread})
        self.pairs, self.pad_id, self.device = pairs, pad_id, spread.world.device
        self._scores: PairScores | None = None

    @property
    def reference_scores(self) -> PairScores | None:
        """Of all pairs; None where they are made on the fly. Every rank reads it together.

        They are made when they are first read, by the first step before the model moves: a run
        that goes on finds them in its checkpoint, and has not made them in vain.
        """
        config: DPOConfig = self.config
        if self._scores is None and config.precompute and config.reads_reference:
            # by the model itself, where there is no other
            own = self.reference is None
            self._scores = self._score_all(self.parallel.model if own else self.reference)
        return self._scores

    def _score_all(self, scorer: LanguageModel) -> PairScores:
        """The scores of all pairs; each rank makes every size-th, and all get the whole."""
        world, size = self.parallel.world, self.config.micro_pairs or self.config.batch_size
        own = self.pairs[world.rank :: world.size]
        parts: list[PairScores] = []
        cuts = [own[start : start + size] for start in range(0, len(own), size)]
        for part in self.parallel.parts(cuts):
            self.poll()
            scores = score_pairs(
                scorer, part or own[:1], self.pad_id, batch_size=size, device=self.device
            )
            if part is not None:  # else other ranks needed this one's shards
                parts.append(scores)
        return whole_scores(self.parallel, parts)

    @property
    def planned(self) -> int:
        """Steps in all."""
        return self.config.steps

    def learning_rate(self, number: int) -> float:
        """The learning rate of step `number`, counted from 0."""
        return float(self.config.rate(number, self.planned))

    def scores_of_reference(self, rows: list[int]) -> PairScores:
        """The reference's scores of some pairs, looked up or made now."""
        if self._scores is not None:
            return self._scores.rows(torch.tensor(rows, device=self.device))
        pairs = [self.pairs[row] for row in rows]
        return score_pairs(
            self.reference, pairs, self.pad_id, batch_size=len(pairs), device=self.device
        )

    def accumulate(self, rows: list[int]) -> tuple[float, PairScores, PairScores | None]:
        """Add the gradient of a batch to ``.grad``; return its loss and both models' scores."""
        batch, _ = [self.pairs[row] for row in rows], self.reference_scores  # before it moves
        return accumulate_pairs(
            self.parallel,
            len(batch),
            sum(len(pair.chosen_ids) for pair in batch),
            self.config,
            stacked=lambda part: pair_batch([batch[i] for i in part], self.pad_id, self.device),
            scored=lambda part, _: self.scores_of_reference([rows[i] for i in part]),
        )

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
                **pair_metrics(scores, reference, self.config.beta, kind=self.config.kind),
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
            self._scores = PairScores(*(field.to(self.device) for field in scores))
