"""The heart of PPO: the loss of a minibatch, and all gradient steps on one batch."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbkit.advantages import whiten
from nbkit.control.actor_critic import Policy
from nbkit.control.rollouts import Batch
from nbkit.diagnostics import explained_variance
from nbkit.losses import ppo_clip_loss, value_loss
from nbkit.minibatches import minibatches
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.diagnostics import movement


def ppo_loss(
    policy: Policy, batch: Batch, config: PPOConfig, clip: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the loss of a minibatch (arXiv:1707.06347, eq. 9) and what it is made of.

    Args:
        policy: with gradient.
        batch: B rows; its advantages are already normalised.
        config: coefficients and forms.
        clip: how far the ratio may move, now.

    Returns:
        loss, policy loss, value loss: scalars; log-probabilities (B,), detached.

    """
    distribution, values = policy(batch.observations)
    logprobs = distribution.log_prob(batch.actions)
    policy_loss = ppo_clip_loss(
        logprobs, batch.logprobs, batch.advantages, clip_low=clip, clip_high=clip
    ).mean()
    critic_loss = value_loss(
        values,
        batch.returns,
        old_values=batch.values,
        clip=config.value_clip,
        form=config.value_clip_form,
    ).mean()
    loss = policy_loss + config.value_coefficient * critic_loss
    if config.entropy_coefficient:
        loss = loss - config.entropy_coefficient * distribution.entropy().mean()
    return loss, policy_loss.detach(), critic_loss.detach(), logprobs.detach()


def update(
    policy: Policy,
    optimiser: Any,
    batch: Batch,
    config: PPOConfig,
    generator: torch.Generator,
    *,
    clip: float | None = None,
) -> dict[str, float]:
    """Take all gradient steps on one batch; return what happened.

    Args:
        policy: changed in place.
        optimiser: of its parameters, or of their ``FlatParameter``.
        batch: M rows.
        config: epochs, minibatches, loss.
        generator: of the order of the rows.
        clip: how far the ratio may move; None: ``config.clip``.

    Returns:
        "ratio_error" (largest |ratio - 1| in the first minibatch, before any step), "kl" and
        "clip_fraction" (of the whole batch, after the last step), "entropy" (nats, after it),
        "explained_variance" (of the values that were predicted before it), "gradient_norm" (before
        clipping, mean of the steps), "policy_loss", "value_loss" (means), "epochs" (taken).

    """
    clip = config.clip if clip is None else clip
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    norms: list[Tensor] = []
    policy_losses: list[Tensor] = []
    value_losses: list[Tensor] = []
    ratio_error = torch.zeros(())
    epoch = 0
    while epoch < config.epochs:
        order = minibatches(len(batch), config.minibatch_size, generator, shuffle=config.shuffle)
        for part in batch.rows(torch.cat(order)).split([len(rows) for rows in order]):
            if config.advantage_normalisation == "minibatch":
                part = replace(part, advantages=whiten(part.advantages))
            loss, policy_part, value_part, logprobs = ppo_loss(policy, part, config, clip)
            if not norms:
                ratio_error = ((logprobs - part.logprobs).exp() - 1).abs().max()
            optimiser.zero_grad(set_to_none=False)  # the gradients may be views: see FlatParameter
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, config.max_grad_norm or float("inf"))
            optimiser.step()
            norms.append(norm)
            policy_losses.append(policy_part)
            value_losses.append(value_part)
        epoch += 1
        if config.target_kl is not None and movement(policy, batch, clip)["kl"] > config.target_kl:
            break
    return {
        "ratio_error": ratio_error.item(),
        **movement(policy, batch, clip),
        "explained_variance": explained_variance(batch.values, batch.returns),
        "gradient_norm": torch.stack(norms).mean().item(),
        "policy_loss": torch.stack(policy_losses).mean().item(),
        "value_loss": torch.stack(value_losses).mean().item(),
        "epochs": float(epoch),
    }


class FlatParameter:
    """Parameters side by side in one tensor, of which they become views, gradients too.

    For small networks, to clip and step one long tensor takes a third of the time of many short
    ones. The network must stay where it is from here on; ``link`` sees to it.

    Attributes:
        tensor: what the optimiser steps.

    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.tensor = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self.tensor.grad = torch.zeros_like(self.tensor)
        sizes = [p.numel() for p in parameters]
        self._values = self.tensor.detach().split(sizes)
        self._gradients = self.tensor.grad.split(sizes)
        for parameter, values in zip(parameters, self._values, strict=True):
            parameter.data = values.view_as(parameter)
        self.link()

    def link(self) -> None:
        """Make the gradients views again, which ``zero_grad()`` undoes.

        Raises:
            RuntimeError: the parameters were moved, or flattened by another trainer.

        """
        for p, values, gradient in zip(self.parameters, self._values, self._gradients, strict=True):
            if p.data_ptr() != values.data_ptr():
                raise RuntimeError(
                    "policy: its parameters have left this trainer (moved to another device, or "
                    "handed to another trainer); make a new trainer"
                )
            p.grad = gradient.view_as(p)
