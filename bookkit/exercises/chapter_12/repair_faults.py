"""The faults of the update in ppo.repair.1, each left in by itself."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.chapter_12.gae import gae
from bookkit.exercises.chapter_12.normalise import normalise
from bookkit.exercises.registry import Mutant


@dataclass(frozen=True)
class _Update:
    """The repaired update with places in which a single fault can be put back."""

    bootstrap_flag: str = "terminated"
    trace_flag: str = "done"
    dummies_in_loss: bool = False
    dummies_in_moments: bool = False
    normalised_first: bool = False
    normalised: bool = True
    ratio: str = "new over old"
    choice: str = "min"
    squeezed: bool = True
    entropy_sign: float = -1.0
    critic_detached: bool = False
    half: float = 0.5
    reduce: str = "mean"
    targets: str = "returns"
    value_coefficient_used: bool = True
    action_row: str = "own"
    cleared: bool = True

    def __call__(
        self,
        policy: Any,
        rollout: Any,
        gamma: float,
        lam: float,
        clip: float,
        value_coefficient: float,
        entropy_coefficient: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        advantages, returns, weights, rows = self.advantages(rollout, gamma, lam)
        logits, values = policy(rollout.observations.flatten()[rows])
        logp = torch.log_softmax(logits, dim=-1)
        actions = rollout.actions.flatten()[rows]
        chosen = logp[0, actions] if self.action_row == "first" else _pick(logp, actions)
        surrogate = self.surrogate(chosen, rollout.logprobs.flatten()[rows], weights, clip)
        targets = (returns if self.targets == "returns" else advantages).flatten()[rows]
        values = values.detach() if self.critic_detached else values
        error = (values.squeeze(-1) if self.squeezed else values) - targets
        entropy = -(logp.exp() * logp).sum(dim=-1)
        coefficient = value_coefficient if self.value_coefficient_used else 1.0
        parts = [
            -surrogate,
            coefficient * self.half * error.square(),
            self.entropy_sign * entropy_coefficient * entropy,
        ]
        reduced = [part.sum() if self.reduce == "sum" else part.mean() for part in parts]
        return advantages, returns, torch.stack(reduced).sum()

    def advantages(
        self, rollout: Any, gamma: float, lam: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Advantages, returns, weights of the rows in the loss, and which rows those are."""
        advantages, returns = gae(
            rollout.rewards,
            rollout.values,
            rollout.next_values,
            getattr(rollout, self.bootstrap_flag),
            getattr(rollout, self.trace_flag),
            gamma,
            lam,
        )
        everything = torch.ones_like(rollout.valid)
        counted = rollout.valid if self.cleared else everything
        advantages = torch.where(counted, advantages, 0.0)
        returns = torch.where(counted, returns, 0.0)
        rows = (everything if self.dummies_in_loss else rollout.valid).flatten()
        in_moments = (everything if self.dummies_in_moments else rollout.valid).flatten()
        scaled = normalise(advantages.flatten(), in_moments)
        if self.normalised_first:
            advantages = scaled.reshape(advantages.shape)
            returns = torch.where(counted, advantages + rollout.values, 0.0)
        weights = scaled if self.normalised else advantages.flatten()
        return advantages, returns, weights[rows], rows

    def surrogate(self, chosen: Tensor, old: Tensor, weights: Tensor, clip: float) -> Tensor:
        """The surrogate of each row."""
        ratio = {
            "new over old": lambda: torch.exp(chosen - old),
            "old over new": lambda: torch.exp(old - chosen),
            "always 1": lambda: torch.exp(chosen - chosen.detach()),
        }[self.ratio]()
        clipped = ratio.clamp(1 - clip, 1 + clip)
        if self.choice == "clipped":
            return clipped * weights
        pick = torch.maximum if self.choice == "max" else torch.minimum
        return pick(ratio * weights, clipped * weights)


def _pick(logp: Tensor, actions: Tensor) -> Tensor:
    return logp.gather(1, actions[:, None]).squeeze(1)


FAULTS = (
    Mutant(
        "a truncation is a death",
        _Update(bootstrap_flag="done"),
        "`done` stops the bootstrap: an episode that was cut off is then worth nothing from there "
        "on. Only `terminated` replaces the next value by 0",
    ),
    Mutant(
        "the trace leaks",
        _Update(trace_flag="terminated"),
        "the trace runs over a truncation into the next episode: it stops wherever `done` is true",
    ),
    Mutant(
        "dummy rows in the loss",
        _Update(dummies_in_loss=True),
        "dummy rows enter the loss: their action was ignored, so nothing is to be learned from "
        "them. Select the valid rows before anything is averaged",
    ),
    Mutant(
        "dummy rows in the normaliser",
        _Update(dummies_in_moments=True),
        "dummy rows enter mean and standard deviation of the advantages: normalise the valid rows "
        "alone",
    ),
    Mutant(
        "dummy rows not cleared",
        _Update(cleared=False),
        "advantages and returns of dummy rows are not 0: nobody may use them by accident",
    ),
    Mutant(
        "normalised before the returns",
        _Update(normalised_first=True),
        "the advantages are normalised before the returns are formed, so the critic's targets are "
        "its own values plus noise of size 1: form the returns from the raw advantages",
    ),
    Mutant(
        "not normalised",
        _Update(normalised=False),
        "the advantages enter the loss as they are; normalise them over the valid rows",
    ),
    Mutant(
        "the ratio is always 1",
        _Update(ratio="always 1"),
        "the old log-probabilities are those of the current policy, so the ratio is 1 for ever and "
        "nothing is clipped: use those noted while acting, `rollout.logprobs`",
    ),
    Mutant(
        "ratio upside down",
        _Update(ratio="old over new"),
        "the ratio is old over new; it is exp(new - old)",
    ),
    Mutant(
        "the larger of the two",
        _Update(choice="max"),
        "the larger of the two surrogates is taken: PPO is a pessimist and takes the smaller",
    ),
    Mutant(
        "only the clipped ratio",
        _Update(choice="clipped"),
        "only the clipped ratio is used, so an action that moved the harmful way is not brought "
        "back: take the smaller of the clipped and the free surrogate",
    ),
    Mutant(
        "values against returns, all pairs",
        _Update(squeezed=False),
        "values (B, 1) minus returns (B,) is broadcast to (B, B): every value is compared with "
        "every return, and the critic learns their mean. Take the last axis away first",
    ),
    Mutant(
        "entropy punished",
        _Update(entropy_sign=1.0),
        "the entropy is added to the loss, so the policy is paid for certainty: a bonus is "
        "subtracted from a loss",
    ),
    Mutant(
        "critic detached",
        _Update(critic_detached=True),
        "the critic's values are detached in its own loss, so it never learns: there the returns "
        "are the constants",
    ),
    Mutant(
        "no half",
        _Update(half=1.0),
        "the critic's square is not halved: its loss is ½ (value - return)²",
    ),
    Mutant(
        "sum over the rows",
        _Update(reduce="sum"),
        "the loss is the sum over the rows; take the mean",
    ),
    Mutant(
        "advantages as targets",
        _Update(targets="advantages"),
        "the critic is fitted to the advantages; its target is the return, advantage plus value",
    ),
    Mutant(
        "value coefficient not used",
        _Update(value_coefficient_used=False),
        "`value_coefficient` has no effect: it weighs the critic's loss",
    ),
    Mutant(
        "log-probabilities of the first row",
        _Update(action_row="first"),
        "every action is scored by the distribution of row 0 (an index like [0, action]): gather "
        "along the last axis",
    ),
)
