"""Groups of answers, an automatic check, and a policy that learns from them: GRPO and its kin.

One trainer; `nbkit.trainers.grpo_variants` names the settings of GRPO, Dr. GRPO, RLOO,
REINFORCE++, DAPO, GSPO and CISPO. An update is four steps, each a function of its own: sample and
score (``grpo_batch.sample_batch``), fix reference and advantages (``grpo_update.prepare``), take
gradient steps (``grpo_update.update``), write down what happened.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nbkit.generate.weights import unwrap
from nbkit.trainers.grpo_batch import PromptStream, sample_batch
from nbkit.trainers.grpo_config import GRPOConfig
from nbkit.trainers.grpo_scoring import Completion, RewardFunction
from nbkit.trainers.grpo_update import grpo_loss, prepare, update
from nbkit.trainers.grpo_variants import VARIANTS, variant
from nbkit.trainers.model_checks import SAMPLES_OTHERWISE, check_no_dropout, check_trainable
from nbkit.trainers.run_loop import run_updates

__all__ = [
    "VARIANTS",
    "Completion",
    "GRPOConfig",
    "GRPOTrainer",
    "grpo_loss",
    "train",
    "variant",
]

Metrics = dict[str, float]


class GRPOTrainer:
    """A run: everything that the next update depends on, so that it can be written down.

    Args:
        model: a causal language model of transformers that ``nbkit.generate`` runs, or a
            ``HuggingFacePolicy`` around one; trained in place, in evaluation mode.
        vocabulary: ``encode``, ``decode``, ``eos_id`` and ``pad_id``.
        problems: each with a ``prompt``.
        reward_fn: called with the problems and the completions of a round, one of each a
            completion; returns a number, a ``Composed``, or None (could not be scored) for each.
        config: settings.
        reference: the frozen model of the KL term; measured against whenever it is given.
        generator: source of all randomness.
        parallel: a ``nbkit.parallel.Parallel``, not prepared yet: spreads the model over the ranks,
            each of which makes this trainer with the same arguments. None: this process is alone.

    Attributes:
        history: the metrics of each update.

    Raises:
        ValueError: a KL coefficient without a reference, frozen parameters, dropout that is on.

    """

    def __init__(
        self,
        model: Any,
        vocabulary: Any,
        problems: Sequence[Any],
        reward_fn: RewardFunction,
        config: GRPOConfig,
        *,
        reference: Any = None,
        generator: torch.Generator,
        parallel: Any = None,
    ) -> None:
        if config.kl_coefficient and reference is None:
            raise ValueError(
                f"reference is missing: kl_coefficient is {config.kl_coefficient}; give the frozen "
                "model, or set it to 0"
            )
        self.model = unwrap(model)
        self.reference = None if reference is None else unwrap(reference)
        check_trainable("model", self.model)
        check_no_dropout("model", self.model, SAMPLES_OTHERWISE)
        self.vocabulary, self.problems, self.reward_fn = vocabulary, problems, reward_fn
        self.config, self.generator = config, generator
        self.stream = PromptStream(len(problems), generator)
        self.parallel = parallel
        self.trained = self.model  # what a forward pass with gradients calls
        if parallel is None:
            self.optimiser = self._adamw(p for p in self.model.parameters() if p.requires_grad)
        else:
            if config.prompts < parallel.world.size:
                raise ValueError(
                    f"prompts is {config.prompts}, but there are {parallel.world.size} ranks, and "
                    "each samples the answers to one prompt at least"
                )
            parallel.prepare(self.model, self._adamw)
            self.trained, self.optimiser = parallel.model, parallel.optimiser
            if self.reference is not None:
                self.reference = parallel.frozen(self.reference)
        self.history: list[Metrics] = []

    def _adamw(self, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
        config = self.config
        return torch.optim.AdamW(
            parameters,
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
        )

    @property
    def finished(self) -> bool:
        """Whether all updates are done."""
        return len(self.history) >= self.config.updates

    def learning_rate(self, number: int) -> float:
        """The learning rate of update `number`, counted from 0."""
        config = self.config
        warm = min(1.0, (number + 1) / config.warmup) if config.warmup else 1.0
        left = max(0.1, 1 - number / config.updates) if config.decay else 1.0
        return config.learning_rate * warm * left

    def step(self) -> Metrics:
        """Sample a batch, learn from it, return the metrics of this update."""
        rate = self.learning_rate(len(self.history))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        whole = nullcontext(self.model) if self.parallel is None else self.parallel.gathered()
        with whole as model:
            batch, sampled = sample_batch(
                model, self.vocabulary, self.problems, self.stream, self.reward_fn, self.config,
                parallel=self.parallel,
            )  # fmt: skip
        start = time.perf_counter()
        fixed: Metrics = {}
        learned: Metrics = {}
        if len(batch):
            batch, weights, fixed = prepare(
                self.trained, self.reference, batch, self.config, parallel=self.parallel
            )
            learned = update(
                self.trained, self.optimiser, batch, weights, self.config, self.generator,
                parallel=self.parallel,
            )  # fmt: skip
        before = self.history[-1]["total_tokens"] if self.history else 0.0
        metrics = {
            "update": float(len(self.history) + 1),
            **sampled,
            "total_tokens": before + sampled["tokens"],
            "groups": len(batch) / self.config.group_size,
            **fixed,
            **learned,
            "learning_rate": rate,
            "seconds/update": time.perf_counter() - start,
        }
        self.history.append(metrics)
        return metrics

    def run(
        self,
        *,
        progress: bool = True,
        description: str = "GRPO",
        stop: Callable[[Metrics], bool] | None = None,
        checkpoint: Path | None = None,
        checkpoint_every: int = 10,
        hook: Callable[["GRPOTrainer", Metrics], None] | None = None,
    ) -> list[Metrics]:
        """Update until done; return the history.

        Args:
            progress: show a text progress bar.
            description: its label.
            stop: asked after each update whether to end here, for a budget of tokens say.
            checkpoint: where to save; a run that finds a file there continues from it. Under
                ``parallel`` it is a folder with shards.
            checkpoint_every: updates between two saves.
            hook: called after each update; may add to the metrics.

        """
        from nbkit.trainers.grpo_checkpoint import resume, save  # it needs this module

        return run_updates(
            self, self.config.updates, progress=progress, description=description,
            postfix=lambda metrics: f"accuracy {metrics['accuracy']:.2f}",
            save=save, resume=resume, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            stop=stop, hook=hook,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Return everything but problems, rewards and reference, as tensors and plain data.

        Under ``parallel`` the model and the optimiser are left to its shards.
        """
        tensors = {}
        if self.parallel is None:
            tensors = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}
        return {
            "config": {k: list(v) if k == "betas" else v for k, v in asdict(self.config).items()},
            **tensors,
            "generator": self.generator.get_state(),
            "stream": self.stream.state_dict(),
            "problems": len(self.problems),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        if self.parallel is None:
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.stream.load_state_dict(state["stream"])
        self.history = list(state["history"])


def train(
    model: Any,
    vocabulary: Any,
    problems: Sequence[Any],
    reward_fn: RewardFunction,
    config: GRPOConfig,
    *,
    reference: Any = None,
    generator: torch.Generator,
    parallel: Any = None,
    **run: Any,
) -> list[Metrics]:
    """Train ``model`` in place; return one dictionary of metrics an update.

    Args:
        model: see ``GRPOTrainer``, as for all but the last.
        vocabulary: of prompts and completions.
        problems: what is asked.
        reward_fn: the verifier.
        config: settings.
        reference: of the KL term.
        generator: source of all randomness.
        parallel: where the model is spread over several devices.
        run: arguments of ``GRPOTrainer.run``.

    """
    trainer = GRPOTrainer(
        model, vocabulary, problems, reward_fn, config,
        reference=reference, generator=generator, parallel=parallel,
    )  # fmt: skip
    return trainer.run(**run)
