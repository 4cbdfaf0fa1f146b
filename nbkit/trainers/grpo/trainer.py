"""Groups of answers, an automatic check, and a policy that learns from them: GRPO and its kin.

One trainer; `nbkit.trainers.grpo.variants` names the settings of GRPO, Dr. GRPO, RLOO,
REINFORCE++, DAPO, GSPO and CISPO. An update is four steps, each a function of its own: sample and
score (``batch.sample_batch``), fix reference and advantages (``update.prepare``), take
gradient steps (``update.update``), write down what happened.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.generate.weights import unwrap
from nbkit.parallel import Parallel
from nbkit.runs.samples import Sample
from nbkit.text.adapters import has_adapters, merged, without_adapters
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.grpo.batch import GroupBatch, sample_batch
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.update import is_silent, prepare, update
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.model_checks import SAMPLES_OTHERWISE, check_no_dropout, check_trainable
from nbkit.trainers.optimisation import adamw_of, set_rate
from nbkit.trainers.samples import batch_as_data, noted_samples
from nbkit.trainers.scoring import Note, RewardFunction
from nbkit.trainers.shares import check_share, spread_over
from nbkit.trainers.watch import silent_steps


class GRPOTrainer(StreamTrainer):
    """A run: everything that the next update depends on, so that it can be written down.

    Sampler and trainer are two programs. The metric "ratio_error" is the largest |pi_trainer /
    pi_sampler - 1| of all tokens of the first minibatch, before any step: 0 but for rounding. In
    float32 it is below 1e-3. In bfloat16 a logit keeps 8 bits, so its error grows with its size: a
    flat policy shows 0.05, a sharp one about 1 (at an entropy of 1.3 nats) or 10 (at 0.8), at
    single improbable tokens (``tests/rlvr/test_ratio_error.py``). More in float32, or a large
    "clip_fraction" before any step, is another temperature, template or set of weights.

    Without ``importance_cap`` the clip takes that rounding for a move of the policy: 5 % of the
    tokens of the sharp policy are clipped in the first step and lose their gradient. With it
    the old log-probabilities are the trainer's, so the ratio error is 0 and nothing is clipped
    before a step; the rounding is in the importance weights, which correct for it up to the cap,
    and in "sampler_error", the largest |log pi_trainer - log pi_sampler|.

    Args:
        model: a causal language model of transformers that ``nbkit.generate`` runs, or a
            ``HuggingFacePolicy`` around one; trained in place, in evaluation mode.
        vocabulary: ``encode``, ``decode``, ``eos_id`` and ``pad_id``.
        problems: each with a ``prompt``, or with ``prompt_ids``.
        reward_fn: called with the problems and the completions of a round, one of each a
            completion; returns a number, a ``Composed``, or None (could not be scored) for each.
        config: settings.
        reference: the frozen model of the KL term; measured against whenever it is given. None
            with a KL coefficient: the model without its adapters.
        generator: source of all randomness.
        parallel: not prepared yet: spreads the models over the ranks, each of which makes this
            trainer with the same arguments. None: one device.

    Attributes:
        history: the metrics of each update.
        batch: the last one, with its advantages; None before the first update.
        notes: of its rows, or if it has none, of those that were thrown away last.

    Raises:
        ValueError: a KL coefficient without a reference, frozen parameters, dropout that is on,
            fewer prompts than ranks.

    """

    description = "GRPO"

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction,
        config: GRPOConfig,
        *,
        reference: LanguageModel | None = None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        self.model: Any = unwrap(model)
        if config.kl_coefficient and reference is None and not has_adapters(self.model):
            raise ValueError(
                f"reference is missing: kl_coefficient is {config.kl_coefficient}; give the frozen "
                "model, or set it to 0"
            )
        check_trainable("model", self.model)
        check_no_dropout("model", self.model, SAMPLES_OTHERWISE)
        self.vocabulary, self.problems, self.reward_fn = vocabulary, problems, reward_fn
        spread = spread_over(parallel, self.model)
        check_share("prompts", config.prompts, spread, "samples the answers to one prompt at least")
        spread.prepare(self.model, adamw_of(config, betas=config.betas, fused=False))
        self.reference = None if reference is None else spread.frozen(unwrap(reference))
        self.batch: GroupBatch | None = None
        self.notes: list[Note] = []
        super().__init__(config, len(problems), generator, {"model": spread})

    @property
    def planned(self) -> int:
        """Updates in all."""
        return self.config.updates

    def learning_rate(self, number: int) -> float:
        """The learning rate of update `number`, counted from 0."""
        config = self.config
        warm = min(1.0, (number + 1) / config.warmup) if config.warmup else 1.0
        left = max(0.1, 1 - number / config.updates) if config.decay else 1.0
        return config.learning_rate * warm * left

    def step(self) -> Metrics:
        """Sample a batch, learn from it, return the metrics of this update."""
        self.notes = []
        with self.parallel.gathered() as whole, merged(whole):
            batch, sampled = sample_batch(
                whole, self.vocabulary, self.problems, self.stream, self.reward_fn, self.config,
                parallel=self.parallel, notes=self.notes,
            )  # fmt: skip
        return self.learn_from(batch, sampled)

    def learn_from(self, batch: GroupBatch, sampled: Metrics) -> Metrics:
        """The learning half of a step: reference, advantages, gradient steps, one more update.

        Args:
            batch: as it was sampled, on all ranks the whole; without a row nothing is learned.
            sampled: metrics of the sampling, "tokens" among them; they are this update's too.

        """
        config, parallel, rate = self.config, self.parallel, self.learning_rate(self.done)
        set_rate(parallel.optimiser, rate)
        start = time.perf_counter()
        fixed: Metrics = {}
        learned: Metrics = {}
        weights: Tensor | None = None
        if len(batch):
            batch, weights, fixed = prepare(
                parallel.model, self._scorer(), batch, config, parallel=parallel
            )
            learned = update(parallel, batch, weights, config, self.generator)
        self.batch = batch
        self.refused = None
        if learned.get("skipped"):
            self.refused = batch_as_data(batch, importance_weights=weights, **learned)
        before = self.history[-1]["total_tokens"] if self.history else 0.0
        return self.note(
            {
                "update": self.done + 1.0,
                **sampled,
                "total_tokens": before + sampled["tokens"],
                "groups": len(batch) / config.group_size,
                **fixed,
                **learned,
                "silent_steps": silent_steps(self.history, is_silent(batch, config)),
                "learning_rate": rate,
                "seconds/update": time.perf_counter() - start,
            }
        )

    def _scorer(self) -> Any:
        """What gives the reference's log-probabilities, or None."""
        if self.reference is None and self.config.kl_coefficient:
            return without_adapters(self.parallel.model, self.model)
        return self.reference

    def samples(self, count: int) -> list[Sample]:
        """As in ``Trainer``; spread evenly over the rows of the batch that was trained on."""
        return noted_samples(self.batch, self.notes, self.vocabulary, count)

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"accuracy {metrics['accuracy']:.2f}"
