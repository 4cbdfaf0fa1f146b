"""GRPO on samples of an older policy: an exact lag in one process, and what is measured of it."""

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nbkit.kl import kl_estimate
from nbkit.losses import importance_weights
from nbkit.masks import masked_mean
from nbkit.off_policy import effective_sample_size
from nbkit.parallel import Parallel
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.batch import sample_batch
from nbkit.trainers.grpo.logprobs import scored_by
from nbkit.trainers.grpo.update import prepare, update
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.optimisation import set_rate

CAP = 2.0  # of the truncated importance weights


def lagged_updates(trainer: GRPOTrainer, lag: int) -> Iterator[Metrics]:
    """Make the updates of a trainer, each on samples from the weights of `lag` updates ago.

    While there are fewer updates, the samples come from the first weights. With a lag of 0 these
    are the updates of ``trainer.step`` (``tests/studies/test_grpo_staleness.py``).

    Args:
        trainer: new; its model is trained in place, and its history stays empty.
        lag: updates between the weights that sample and those that learn.

    Yields:
        Of each update: the metrics of its samples and of its gradient steps, what ``apart`` says of
        both policies before the first step, "age" (updates that the sampler is behind),
        "least_gradient_norm" (of its gradient steps), "silent" (1 where every group's rewards are
        equal, so that there is nothing to learn) and "missing_steps" (of the others, without one).

    """
    config, parallel = trainer.config, trainer.parallel
    sampler = copy.deepcopy(trainer.model)
    past = deque([snapshot(trainer.model)], maxlen=lag + 1)
    norms = note_norms(parallel)
    for number in range(config.updates):
        sampler.load_state_dict(past[0])
        set_rate(parallel.optimiser, trainer.learning_rate(number))
        batch, sampled = sample_batch(
            sampler, trainer.vocabulary, trainer.problems, trainer.stream, trainer.reward_fn, config
        )
        behaviour = batch.logprobs
        batch, weights, _ = prepare(parallel.model, None, batch, config, parallel=parallel)
        now = batch.logprobs
        if not config.recomputes_old:
            now = scored_by(parallel.model, batch, config, parallel=parallel)
        norms.clear()
        learned = update(parallel, batch, weights, config, trainer.generator)
        past.append(snapshot(trainer.model))
        if config.objective != "clip":
            learned["clip_fraction"] = 0.0  # CISPO's would count weights, not gradients
        silent = sampled["silent_groups"] == 1
        steps = config.epochs * config.minibatches
        yield {
            **sampled,
            **learned,
            **apart(behaviour, now, batch.mask),
            "age": float(min(number, lag)),
            "least_gradient_norm": min(norms, default=0.0),
            "silent": float(silent),
            "missing_steps": 0.0 if silent else float(steps - len(norms)),
        }


def apart(behaviour: Tensor, now: Tensor, mask: Tensor) -> Metrics:
    """How far the policy that learns is from the one that sampled, by the tokens of a batch.

    Args:
        behaviour: (R, T) log-probabilities under the policy that sampled.
        now: (R, T) under the policy that learns, before its first step on the batch.
        mask: (R, T).

    Returns:
        "kl" and "kl_k1", estimates of KL(behaviour || now) a token (k3 and k1 of
        ``nbkit.kl.kl_estimate``); effective sample sizes as shares, "ess" of the weights of tokens
        without a bound, "ess_capped" with it, "ess_sequences" of the products over a completion;
        "capped", the share of tokens whose weight the bound lowers; "outside", of those whose ratio
        is outside 0.8 to 1.2.

    """
    free = importance_weights(now, behaviour, mask, high=None)
    products = importance_weights(now, behaviour, mask, level="sequence", high=None)[:, 0]
    counted = free[mask]
    return {
        "kl": masked_mean(kl_estimate(behaviour, now, "k3", mask=mask), mask).item(),
        "kl_k1": masked_mean(kl_estimate(behaviour, now, "k1", mask=mask), mask).item(),
        "ess": effective_sample_size(free, mask),
        "ess_capped": effective_sample_size(free.clamp(max=CAP), mask),
        "ess_sequences": effective_sample_size(products, mask.any(1)),
        "capped": (counted > CAP).double().mean().item(),
        "outside": ((counted - 1).abs() > 0.2).double().mean().item(),
    }


def snapshot(model: Any) -> dict[str, Tensor]:
    """A copy of the weights that no later step changes."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def note_norms(parallel: Parallel) -> list[float]:
    """The list to which every later gradient step adds its norm before clipping."""
    norms: list[float] = []
    plain_step = parallel.try_step

    def noted(max_norm: float | None = None) -> float:
        norms.append(plain_step(max_norm))
        return norms[-1]

    parallel.try_step = noted  # type: ignore[method-assign]
    return norms


def generator(seed: int) -> torch.Generator:
    """A source of randomness."""
    return torch.Generator().manual_seed(seed)
