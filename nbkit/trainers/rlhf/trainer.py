"""Stage 3: PPO on a language model against a learned reward (arXiv:1909.08593, arXiv:2203.02155).

Four models: the policy learns; the reference says how far it has gone; the reward model, behind
``reward_fn``, says what an answer is worth; the value model predicts what is still to come. An
update is three steps, each a function of its own: sample and score (``batch.sample_batch``),
take gradient steps (``update.update``), move the price of the divergence
(``kl_controller``). A verifier in place of the reward model is another ``reward_fn``.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from nbkit.generate.weights import causal
from nbkit.parallel import Parallel
from nbkit.runs.samples import Sample
from nbkit.text.adapters import has_adapters, without_adapters
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.text.scalar_models import ScalarModel, SharedActorCritic
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.model_checks import SAMPLES_OTHERWISE, check_no_dropout, check_trainable
from nbkit.trainers.optimisation import adamw_of, set_rate
from nbkit.trainers.rlhf.batch import RLHFBatch, sample_batch
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.rlhf.update import update
from nbkit.trainers.samples import batch_as_data, noted_samples
from nbkit.trainers.scoring import Completion, Note, RewardFunction, has_signal
from nbkit.trainers.shares import check_share, spread_over
from nbkit.trainers.watch import silent_steps

_OWN_METRICS = frozenset(
    ("update", "reward", "kl", "kl_token", "kl_coefficient", "kl_penalty", "entropy", "length",
     "truncated", "tokens", "value", "sampler_error", "unscored", "policy_loss", "value_loss",
     "clip_fraction", "value_clip_fraction", "approx_kl", "gradient_norm", "value_gradient_norm",
     "ratio_error", "explained_variance", "steps", "skipped", "silent_steps",
     "total_tokens", "learning_rate")
)  # fmt: skip


class RLHFTrainer(StreamTrainer):
    """A run: everything that the next update depends on, so that it can be written down.

    Args:
        policy: a causal language model of transformers that ``nbkit.generate`` runs, or a
            ``SharedActorCritic`` around one; trained in place, in evaluation mode.
        vocabulary: ``encode``, ``decode``, ``eos_id`` and ``pad_id``.
        problems: each with a ``prompt``, or with ``prompt_ids``.
        reward_fn: called with problems and completions, one of each a completion; returns a number,
            a ``Composed``, or None (could not be scored) for each. The interface of the GRPO
            trainer. Or a ``ScalarModel``: it reads the ids of the batch on the device, spread over
            the ranks like the reference, and is not trained.
        config: settings.
        reference: the frozen language model; None: the policy without its adapters.
        value: a ``ScalarModel``, trained in place; None with a ``SharedActorCritic``.
        monitors: name to reward function: measured on each batch, never learned from.
        generator: source of all randomness, on the CPU.
        parallel: not prepared yet: spreads the models over the ranks, each of which makes this
            trainer with the same arguments. None: one device.

    Attributes:
        history: the metrics of each update.
        policy: what is called in training, on its back-end; ``value`` likewise.
        batch: the last batch; None before the first update.
        completions: those of the last batch; ``notes`` likewise, with rewards and their parts.
        controller: of the KL coefficient.

    Raises:
        ValueError: a value model missing or one too many; no reference and no adapters; frozen
            parameters; dropout that is on; a monitor with the name of a metric; a
            ``SharedActorCritic`` on a back-end that would have to see its trunk called.

    """

    description = "PPO"

    def __init__(
        self,
        policy: LanguageModel | SharedActorCritic,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction | ScalarModel,
        config: RLHFConfig,
        *,
        reference: LanguageModel | None = None,
        value: ScalarModel | None = None,
        monitors: Mapping[str, RewardFunction] | None = None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        shared = isinstance(policy, SharedActorCritic)
        if shared == (value is not None):
            raise ValueError(
                "value: a SharedActorCritic has its own value head; give none" if shared
                else "value is missing: give a ScalarModel, or a SharedActorCritic as the policy"
            )  # fmt: skip
        net: Any = policy if shared else causal(policy)
        if reference is None and not has_adapters(net):
            raise ValueError("reference is missing: give the frozen model, or a policy of adapters")
        self.vocabulary, self.problems = vocabulary, problems
        self.monitors = dict(monitors or {})
        taken = sorted(_OWN_METRICS & self.monitors.keys())
        if taken:
            raise ValueError(f"monitors: {taken} are names of the trainer's own metrics")
        for name, model in (("policy", net), ("value", value)):
            if model is not None:
                check_trainable(name, model)
        check_no_dropout("policy", causal(policy), SAMPLES_OTHERWISE)
        spread = spread_over(parallel, net)
        if shared and spread.config.family != "single":
            raise ValueError(
                "parallel: a SharedActorCritic cannot be spread, because its trunk is called past "
                "the wrapper; give a language model and a ScalarModel"
            )
        check_share("prompts", config.prompts, spread, "samples the answers to one prompt at least")
        learners = {"policy": spread}
        spread.prepare(net, adamw_of(config, betas=config.betas))
        if value is not None:
            learners["value"] = spread.another()
            learners["value"].prepare(value, adamw_of(config, betas=config.betas))
        super().__init__(config, len(problems), generator, learners)
        self.policy: Any = spread.model
        self.value: Any = learners["value"].model if "value" in learners else None
        self.reference: Any = (
            without_adapters(spread.model, net)
            if reference is None
            else spread.frozen(causal(reference))
        )
        self.reward_fn: RewardFunction | ScalarModel = reward_fn
        if isinstance(reward_fn, ScalarModel):
            self.reward_fn = spread.frozen(reward_fn)
        self.controller = config.controller()
        self.batch: RLHFBatch | None = None
        self.completions: list[Completion] = []
        self.notes: list[Note] = []

    @property
    def planned(self) -> int:
        """Updates in all."""
        return self.config.updates

    def step(self) -> Metrics:
        """Sample a batch, learn from it, return the metrics of this update."""
        config, number = self.config, self.done
        factor = config.rate_factor(number)
        rates = (config.learning_rate, config.value_learning_rate or config.learning_rate)
        for learner, rate in zip(self.learners.values(), rates, strict=False):
            set_rate(learner.optimiser, rate * factor)
        self.notes = []
        self.batch, sampled, self.completions = sample_batch(
            self.parallel, self.value, self.reference, self.vocabulary, self.problems, self.stream,
            self.reward_fn, config,
            kl_coefficient=self.controller.coefficient, monitors=self.monitors, notes=self.notes,
        )  # fmt: skip
        start = time.perf_counter()
        learned = update(
            self.parallel, self.learners.get("value"), self.batch, config, self.generator,
            policy_learns=number >= config.value_warmup,
        )  # fmt: skip
        if math.isfinite(sampled["kl"]):  # a price of nan would stay nan
            self.controller.update(sampled["kl"], len(self.batch))
        self.refused = None
        if learned["skipped"]:
            self.refused = batch_as_data(self.batch, **learned)
        silent = not bool(
            has_signal(self.batch.scores, ~self.batch.scores.isnan(), len(self.batch))
        )
        before = self.history[-1]["total_tokens"] if self.history else 0.0
        return self.note(
            {
                "update": number + 1.0,
                **sampled,
                "total_tokens": before + sampled["tokens"],
                **learned,
                "silent_steps": silent_steps(self.history, silent),
                "learning_rate": rates[0] * factor,
                "seconds/update": time.perf_counter() - start,
            }
        )

    def samples(self, count: int) -> list[Sample]:
        """As in ``Trainer``; spread evenly over the rows of the batch."""
        return noted_samples(self.batch, self.notes, self.vocabulary, count)

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"reward {metrics['reward']:+.2f}, KL {metrics['kl']:.1f}"

    def state_dict(self) -> dict[str, Any]:
        """Return everything but problems, rewards and models, as tensors and plain data."""
        return super().state_dict() | {"controller": self.controller.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        super().load_state_dict(state)
        self.controller.load_state_dict(state["controller"])
