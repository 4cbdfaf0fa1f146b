"""Stage 3: PPO on a language model against a learned reward (arXiv:1909.08593, arXiv:2203.02155).

Four models: the policy learns; the reference says how far it has gone; the reward model, behind
``reward_fn``, says what an answer is worth; the value model predicts what is still to come. An
update is three steps, each a function of its own: sample and score (``rlhf_batch.sample_batch``),
take gradient steps (``rlhf_update.update``), move the price of the divergence
(``kl_controller``). A verifier in place of the reward model is another ``reward_fn``.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nbkit.text.policies_value import ScalarModel, SharedActorCritic
from nbkit.trainers.grpo_batch import PromptStream
from nbkit.trainers.grpo_scoring import Completion, RewardFunction
from nbkit.trainers.model_checks import SAMPLES_OTHERWISE, check_no_dropout, check_trainable
from nbkit.trainers.rlhf_batch import Metrics, RLHFBatch, sample_batch
from nbkit.trainers.rlhf_config import RLHFConfig
from nbkit.trainers.rlhf_models import causal
from nbkit.trainers.rlhf_update import update
from nbkit.trainers.run_loop import run_updates
from nbkit.trainers.sft import adamw

__all__ = ["Completion", "RLHFConfig", "RLHFTrainer", "train"]

_OWN_METRICS = frozenset(
    ("update", "reward", "kl", "kl_token", "kl_coefficient", "kl_penalty", "entropy", "length",
     "truncated", "tokens", "value", "sampler_error", "unscored", "policy_loss", "value_loss",
     "clip_fraction", "value_clip_fraction", "approx_kl", "gradient_norm", "value_gradient_norm",
     "ratio_error", "explained_variance", "steps", "total_tokens", "learning_rate")
)  # fmt: skip


class RLHFTrainer:
    """A run: everything that the next update depends on, so that it can be written down.

    Args:
        policy: a causal language model of transformers that ``nbkit.generate`` runs, or a
            ``SharedActorCritic`` around one; trained in place, in evaluation mode.
        vocabulary: ``encode``, ``decode``, ``eos_id`` and ``pad_id``.
        problems: each with a ``prompt``.
        reward_fn: called with problems and completions, one of each a completion; returns a number,
            a ``Composed``, or None (could not be scored) for each. The interface of the GRPO
            trainer.
        config: settings.
        reference: the frozen language model.
        value: a ``ScalarModel``, trained in place; None with a ``SharedActorCritic``.
        monitors: name to reward function: measured on each batch, never learned from.
        generator: source of all randomness, on the CPU.
        parallel: a ``nbkit.parallel.Parallel``, not prepared yet: spreads the models over the
            ranks, each of which makes this trainer with the same arguments. None: this process is
            alone.

    Attributes:
        history: the metrics of each update.
        batch: the last batch; None before the first update.
        completions: those of the last batch.
        controller: of the KL coefficient.

    Raises:
        ValueError: a value model missing or one too many; frozen parameters; dropout that is on; a
            monitor with the name of a metric.

    """

    def __init__(
        self,
        policy: Any,
        vocabulary: Any,
        problems: Sequence[Any],
        reward_fn: RewardFunction,
        config: RLHFConfig,
        *,
        reference: Any,
        value: ScalarModel | None = None,
        monitors: Mapping[str, RewardFunction] | None = None,
        generator: torch.Generator,
        parallel: Any = None,
    ) -> None:
        shared = isinstance(policy, SharedActorCritic)
        if shared == (value is not None):
            raise ValueError(
                "value: a SharedActorCritic has its own value head; give none" if shared
                else "value is missing: give a ScalarModel, or a SharedActorCritic as the policy"
            )  # fmt: skip
        self.policy, self.value, self.reference = policy, value, reference
        self.vocabulary, self.problems, self.reward_fn = vocabulary, problems, reward_fn
        self.monitors = dict(monitors or {})
        taken = sorted(_OWN_METRICS & self.monitors.keys())
        if taken:
            raise ValueError(f"monitors: {taken} are names of the trainer's own metrics")
        for name, model in (("policy", policy), ("value", value)):
            if model is not None:
                check_trainable(name, model)
        check_no_dropout("policy", causal(policy), SAMPLES_OTHERWISE)
        self.config, self.generator = config, generator
        self.stream = PromptStream(len(problems), generator)
        self.controller = config.controller()
        self.parallel = None if parallel is None else self._spread(parallel)
        if self.parallel is None:
            learning = [m for m in (policy, value) if m is not None]
            self.optimiser = self._adamw(
                {"params": [p for p in model.parameters() if p.requires_grad]} for model in learning
            )
        self.history: list[Metrics] = []
        self.batch: RLHFBatch | None = None
        self.completions: list[Completion] = []

    def _spread(self, parallel: Any) -> tuple[Any, Any]:
        """Prepare policy, value and reference; the back-ends of policy and value."""
        if self.value is None:
            raise ValueError(
                "parallel: a SharedActorCritic cannot be spread, because its trunk is called past "
                "the wrapper; give a language model and a ScalarModel"
            )
        if self.config.prompts < parallel.world.size:
            raise ValueError(
                f"prompts is {self.config.prompts}, but there are {parallel.world.size} ranks, and "
                "each samples the answers to one prompt at least"
            )
        both = parallel, parallel.another()
        for back_end, model in zip(both, (causal(self.policy), self.value), strict=True):
            back_end.prepare(model, lambda parameters: self._adamw([{"params": list(parameters)}]))
        self.policy, self.value = both[0].model, both[1].model
        self.reference = parallel.frozen(causal(self.reference))
        return both

    def _adamw(self, groups: Iterable[dict[str, Any]]) -> torch.optim.AdamW:
        config = self.config
        return adamw(
            list(groups),
            config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
        )

    def _groups(self) -> list[dict[str, Any]]:
        """Settings of the optimiser, those of the policy first."""
        if self.parallel is None:
            return self.optimiser.param_groups
        return [group for one in self.parallel for group in one.optimiser.param_groups]

    @property
    def finished(self) -> bool:
        """Whether all updates are done."""
        return len(self.history) >= self.config.updates

    def step(self) -> Metrics:
        """Sample a batch, learn from it, return the metrics of this update."""
        config, number = self.config, len(self.history)
        factor = config.rate_factor(number)
        rates = (config.learning_rate, config.value_learning_rate or config.learning_rate)
        for group, rate in zip(self._groups(), rates, strict=False):
            group["lr"] = rate * factor
        self.batch, sampled, self.completions = sample_batch(
            self.policy, self.value, self.reference, self.vocabulary, self.problems, self.stream,
            self.reward_fn, config,
            kl_coefficient=self.controller.coefficient, monitors=self.monitors,
            parallel=None if self.parallel is None else self.parallel[0],
        )  # fmt: skip
        start = time.perf_counter()
        optimiser = None if self.parallel else self.optimiser
        learned = update(
            self.policy, self.value, optimiser, self.batch, config, self.generator,
            policy_learns=number >= config.value_warmup, parallel=self.parallel,
        )  # fmt: skip
        self.controller.update(sampled["kl"], len(self.batch))
        before = self.history[-1]["total_tokens"] if self.history else 0.0
        metrics = {
            "update": number + 1.0,
            **sampled,
            "total_tokens": before + sampled["tokens"],
            **learned,
            "learning_rate": rates[0] * factor,
            "seconds/update": time.perf_counter() - start,
        }
        self.history.append(metrics)
        return metrics

    def run(
        self,
        *,
        progress: bool = True,
        description: str = "PPO",
        stop: Callable[[Metrics], bool] | None = None,
        checkpoint: Path | None = None,
        checkpoint_every: int = 10,
        hook: Callable[["RLHFTrainer", Metrics], None] | None = None,
    ) -> list[Metrics]:
        """Update until done; return the history.

        Args:
            progress: show a text progress bar.
            description: its label.
            stop: asked after each update whether to end here, for a bound on the divergence say.
            checkpoint: where to save; a run that finds a file there continues from it. Under
                ``parallel`` it is a folder with shards.
            checkpoint_every: updates between two saves.
            hook: called after each update; may add to the metrics.

        """
        from nbkit.trainers.rlhf_checkpoint import resume, save  # it needs this module

        return run_updates(
            self, self.config.updates, progress=progress, description=description,
            postfix=lambda metrics: f"reward {metrics['reward']:+.2f}, KL {metrics['kl']:.1f}",
            save=save, resume=resume, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            stop=stop, hook=hook,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Return everything but problems, rewards and reference, as tensors and plain data.

        Under ``parallel`` models and optimisers are left to their shards.
        """
        tensors: dict[str, Any] = {}
        if self.parallel is None:
            tensors = {
                "policy": self.policy.state_dict(),
                "value": None if self.value is None else self.value.state_dict(),
                "optimiser": self.optimiser.state_dict(),
            }
        return {
            "config": {k: list(v) if k == "betas" else v for k, v in asdict(self.config).items()},
            **tensors,
            "generator": self.generator.get_state(),
            "stream": self.stream.state_dict(),
            "controller": self.controller.state_dict(),
            "problems": len(self.problems),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        if self.parallel is None:
            self.policy.load_state_dict(state["policy"])
            if self.value is not None:
                self.value.load_state_dict(state["value"])
            self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.stream.load_state_dict(state["stream"])
        self.controller.load_state_dict(state["controller"])
        self.history = list(state["history"])


def train(
    policy: Any,
    vocabulary: Any,
    problems: Sequence[Any],
    reward_fn: RewardFunction,
    config: RLHFConfig,
    *,
    reference: Any,
    value: ScalarModel | None = None,
    monitors: Mapping[str, RewardFunction] | None = None,
    generator: torch.Generator,
    parallel: Any = None,
    **run: Any,
) -> list[Metrics]:
    """Train ``policy`` in place; return one dictionary of metrics an update.

    Args:
        policy: see ``RLHFTrainer``, as for all but the last.
        vocabulary: of prompts and completions.
        problems: what is asked.
        reward_fn: reward model or verifier.
        config: settings.
        reference: of the KL term.
        value: of the advantages.
        monitors: what else is measured.
        generator: source of all randomness.
        parallel: where the models are spread over several devices.
        run: arguments of ``RLHFTrainer.run``.

    """
    trainer = RLHFTrainer(
        policy, vocabulary, problems, reward_fn, config,
        reference=reference, value=value, monitors=monitors, generator=generator,
        parallel=parallel,
    )  # fmt: skip
    return trainer.run(**run)
