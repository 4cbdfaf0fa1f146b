"""Direct preference optimisation: learn from pairs of answers, with neither rewards nor sampling.

A step is three functions: stack the pairs (``dpo_batch.pair_batch``), score them
(``dpo_batch.pair_scores``), compare with the reference (``dpo_loss.dpo_loss``).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nbkit.data.encode import EncodedPair
from nbkit.generate.weights import unwrap
from nbkit.trainers.dpo_batch import (
    PairScores,
    check_pairs,
    pair_batch,
    pair_scores,
    score_pairs,
)
from nbkit.trainers.dpo_config import KINDS, DPOConfig
from nbkit.trainers.dpo_loss import dpo_loss, pair_metrics
from nbkit.trainers.grpo_batch import PromptStream
from nbkit.trainers.model_checks import check_no_dropout, check_trainable
from nbkit.trainers.run_loop import run_updates

__all__ = ["KINDS", "DPOConfig", "DPOTrainer", "train"]

Metrics = dict[str, float]
_DIFFER_BY_NOISE = "so that policy and reference differ by noise before the first step"


class DPOTrainer:
    """A run: everything that the next step depends on, so that it can be written down.

    Args:
        model: a causal language model of transformers, trained in place, in evaluation mode.
        pairs: what to learn from.
        config: settings.
        reference: the frozen model; None: the model as it stands now, which then scores all pairs
            before it moves (no second model is kept).
        pad_id: fills short rows.
        generator: of the order of the pairs.

    Attributes:
        history: the metrics of each step.
        reference_scores: of all pairs, or None where they are made on the fly.

    Raises:
        ValueError: pairs with nothing to compare; a reference that is missing or is the policy
            itself, though it is to be scored on the fly; frozen parameters; dropout that is on.

    """

    def __init__(
        self,
        model: Any,
        pairs: Sequence[EncodedPair],
        config: DPOConfig,
        *,
        reference: Any = None,
        pad_id: int,
        generator: torch.Generator,
    ) -> None:
        self.model = unwrap(model)
        self.reference = None if reference is None else unwrap(reference)
        if not config.precompute and (self.reference is None or self.reference is self.model):
            raise ValueError(
                "reference: scored on the fly it must be a model of its own (a frozen copy), or "
                "every log-ratio is 0 for ever; give one, or set precompute"
            )
        check_trainable("model", self.model)
        for name, one in (("model", self.model), ("reference", self.reference)):
            if one is not None:
                check_no_dropout(name, one, _DIFFER_BY_NOISE)
        check_pairs(pairs)
        self.pairs, self.config, self.pad_id = pairs, config, pad_id
        self.generator = generator
        self.stream = PromptStream(len(pairs), generator)
        self.device = next(self.model.parameters()).device
        self.optimiser = torch.optim.AdamW(
            [p for p in self.model.parameters() if p.requires_grad],
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
        )
        self.history: list[Metrics] = []
        self.reference_scores: PairScores | None = None
        if config.precompute:
            frozen = self.model if self.reference is None else self.reference
            size = config.micro_pairs or config.batch_size
            self.reference_scores = score_pairs(frozen, pairs, pad_id, batch_size=size)

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return len(self.history) >= self.config.steps

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
        return score_pairs(self.reference, pairs, self.pad_id, batch_size=len(pairs))

    def accumulate(self, rows: list[int]) -> tuple[float, PairScores, PairScores]:
        """Add the gradient of a batch to ``.grad``; return its loss and both models' scores."""
        config, total = self.config, 0.0
        tokens = sum(len(self.pairs[row].chosen_ids) for row in rows)
        seen: list[PairScores] = []
        fixed: list[PairScores] = []
        size = config.micro_pairs or len(rows)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            batch = pair_batch([self.pairs[row] for row in part], self.pad_id, self.device)
            scores, reference = pair_scores(self.model, batch), self.scores_of_reference(part)
            loss: Tensor = dpo_loss(scores, reference, config).sum() / len(rows)
            if config.sft_coefficient:
                loss = loss - config.sft_coefficient * scores.chosen.sum() / tokens
            loss.backward()
            total += loss.item()
            seen.append(PairScores(*(field.detach() for field in scores)))
            fixed.append(reference)
        return total, _joined(seen), _joined(fixed)

    def step(self) -> Metrics:
        """Learn from one batch of pairs; return the metrics of this step, taken before it.

        Raises:
            RuntimeError: a gradient that is not finite; no step is taken on it.

        """
        start, rate = time.perf_counter(), self.learning_rate(len(self.history))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        rows = self.stream.take(min(self.config.batch_size, len(self.pairs)))
        self.optimiser.zero_grad()
        loss, scores, reference = self.accumulate(rows)
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        norm = nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm or math.inf).item()
        if not math.isfinite(norm):
            raise RuntimeError(
                f"the gradient's norm is {norm}; look at the learning rate and at the scores of "
                f"pairs {rows[:8]}"
            )
        self.optimiser.step()
        before = self.history[-1]["pairs"] if self.history else 0.0
        metrics = {
            "step": float(len(self.history) + 1),
            "pairs": before + len(rows),
            "loss": loss,
            **pair_metrics(scores, reference, self.config.beta),
            "gradient_norm": norm,
            "learning_rate": rate,
            "seconds/step": time.perf_counter() - start,
        }
        self.history.append(metrics)
        return metrics

    def run(
        self,
        *,
        progress: bool = True,
        description: str = "DPO",
        checkpoint: Path | None = None,
        checkpoint_every: int = 50,
        hook: Callable[["DPOTrainer", Metrics], None] | None = None,
    ) -> list[Metrics]:
        """Step until done; return the history.

        Args:
            progress: show a text progress bar.
            description: its label.
            checkpoint: where to save; a run that finds a file there continues from it.
            checkpoint_every: steps between two saves.
            hook: called after each step; may add to the metrics.

        """
        from nbkit.trainers.dpo_checkpoint import resume, save  # it needs this module

        return run_updates(
            self, self.config.steps, progress=progress, description=description,
            postfix=lambda step: f"loss {step['loss']:.3f}, accuracy {step['accuracy']:.2f}",
            save=save, resume=resume, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            hook=hook,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Return everything but pairs and reference model, as tensors and plain data.

        The reference's scores are part of it: a resumed policy has moved and could not make them.
        """
        scores = self.reference_scores
        return {
            "config": {k: list(v) if k == "betas" else v for k, v in asdict(self.config).items()},
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "stream": self.stream.state_dict(),
            "reference_scores": None if scores is None else list(scores),
            "pairs": len(self.pairs),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.stream.load_state_dict(state["stream"])
        scores = state["reference_scores"]
        if scores is not None:
            self.reference_scores = PairScores(*(field.to(self.device) for field in scores))
        self.history = list(state["history"])


def _joined(parts: list[PairScores]) -> PairScores:
    return PairScores(*(torch.cat(fields) for fields in zip(*parts, strict=True)))


def train(
    model: Any,
    pairs: Sequence[EncodedPair],
    config: DPOConfig,
    *,
    reference: Any = None,
    pad_id: int,
    generator: torch.Generator,
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
        run: arguments of ``DPOTrainer.run``.

    """
    trainer = DPOTrainer(
        model, pairs, config, reference=reference, pad_id=pad_id, generator=generator
    )
    return trainer.run(**run)
