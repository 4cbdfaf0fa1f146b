"""The update of rlhf.repair.1 with places for one fault each, and the faults."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.registry import Mutant

EPS = 1e-8
Triple = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Update:
    """The right update; each field puts one fault back."""

    kl_sign: float = 1.0
    kl_from: str = "rollout"
    end_in_pads: bool = False
    penalty_sign: float = 1.0
    score_at: str = "last"
    behind_the_end: bool = False
    trace: bool = True
    moments: str = "counted"
    whitened: bool = True
    targets: str = "returns"
    ratio: str = "new over old"
    pick: str = "min"
    reduce: str = "tokens"
    critic_detached: bool = False
    half: float = 0.5
    value_coefficient_used: bool = True

    def __call__(
        self,
        policy: Any,
        rollout: Any,
        beta: float,
        penalty: float,
        lam: float,
        clip: float,
        value_coefficient: float,
    ) -> Triple:
        """Rewards (B, T), raw advantages (B, T) and the loss ()."""
        logprobs, values = policy(rollout.ids)
        rewards = self.rewards(rollout, logprobs, beta, penalty)
        advantages = self.advantages(rewards, rollout, lam)
        raw = advantages
        mask = rollout.mask
        weights = self.whiten(advantages, mask) if self.whitened else advantages
        targets = (weights if self.targets == "whitened" else advantages) + rollout.values
        targets = advantages if self.targets == "advantages" else targets
        surrogate = self.surrogate(logprobs, rollout.logprobs, weights.detach(), clip)
        values = values.detach() if self.critic_detached else values
        error = self.half * (values - targets.detach()).square()
        coefficient = value_coefficient if self.value_coefficient_used else 1.0
        loss = self.mean(-surrogate, mask) + coefficient * self.mean(error, mask)
        return rewards, raw, loss

    def rewards(self, rollout: Any, logprobs: Tensor, beta: float, penalty: float) -> Tensor:
        """The reward of each token."""
        mask = rollout.mask
        looked_at = torch.ones_like(mask) if self.end_in_pads else mask
        ended = ((rollout.ids == rollout.eos_id) & looked_at).any(dim=1)
        scores = torch.where(ended, rollout.scores, rollout.scores - self.penalty_sign * penalty)
        own = logprobs if self.kl_from == "now" else rollout.logprobs
        drift = torch.where(mask, own - rollout.ref_logprobs, 0.0)
        rewards = -beta * self.kl_sign * drift
        positions = torch.arange(mask.shape[1])[None, :]
        last = positions == torch.where(mask, positions, -1).amax(dim=1, keepdim=True)
        if self.score_at == "column":
            last = positions == mask.shape[1] - 1
        if self.score_at == "everywhere":
            last = mask
        return rewards + torch.where(last, scores[:, None], 0.0)

    def advantages(self, rewards: Tensor, rollout: Any, lam: float) -> Tensor:
        """Backwards over the tokens; behind the last counted one there is nothing."""
        mask, trace = rollout.mask, torch.zeros_like(rewards[:, 0])
        columns = []
        for t in reversed(range(mask.shape[1])):
            behind = torch.zeros_like(trace)
            if t + 1 < mask.shape[1]:
                counts = torch.ones_like(mask[:, t + 1]) if self.behind_the_end else mask[:, t + 1]
                behind = torch.where(counts, rollout.values[:, t + 1], 0.0)
            delta = rewards[:, t] + behind - rollout.values[:, t]
            trace = torch.where(mask[:, t], delta + (lam * trace if self.trace else 0.0), 0.0)
            columns.append(trace)
        return torch.stack(columns[::-1], dim=1)

    def whiten(self, advantages: Tensor, mask: Tensor) -> Tensor:
        """Mean 0 and standard deviation 1 over what counts."""
        counted = advantages.flatten() if self.moments == "all" else advantages[mask]
        if self.moments == "rows":
            return torch.stack([self._one_row(a, m) for a, m in zip(advantages, mask, strict=True)])
        if counted.numel() < 2:
            return torch.zeros_like(advantages)
        return torch.where(mask, (advantages - counted.mean()) / (counted.std() + EPS), 0.0)

    def _one_row(self, advantages: Tensor, mask: Tensor) -> Tensor:
        counted = advantages[mask]
        if counted.numel() < 2:
            return torch.zeros_like(advantages)
        return torch.where(mask, (advantages - counted.mean()) / (counted.std() + EPS), 0.0)

    def surrogate(self, new: Tensor, old: Tensor, weights: Tensor, clip: float) -> Tensor:
        """The surrogate of each token."""
        if self.ratio == "always 1":
            old = new.detach()
        ratio = torch.exp(old - new if self.ratio == "old over new" else new - old)
        pick = torch.maximum if self.pick == "max" else torch.minimum
        return pick(ratio * weights, ratio.clamp(1 - clip, 1 + clip) * weights)

    def mean(self, per_token: Tensor, mask: Tensor) -> Tensor:
        """One number from the tokens that count."""
        kept = torch.where(mask, per_token, 0.0)
        if self.reduce == "positions":
            return kept.mean()
        if self.reduce == "rows":
            return (kept.sum(dim=1) / mask.sum(dim=1)).mean()
        return kept.sum() / mask.sum()


FAULTS = (
    Mutant(
        "KL with the opposite sign",
        Update(kl_sign=-1.0),
        "drifting away from the reference is paid instead of charged: the reward of a token is "
        "-beta times (logprobs - ref_logprobs)",
    ),
    Mutant(
        "KL of the policy of now",
        Update(kl_from="now"),
        "the KL is computed from the current log-probabilities: a reward is a fact about the "
        "rollout, so take those that were recorded",
    ),
    Mutant(
        "pads taken for ends",
        Update(end_in_pads=True),
        "a pad with the id of the end counts as an end, so that answers which were cut off are "
        "never charged: look under the mask",
    ),
    Mutant(
        "penalty added",
        Update(penalty_sign=-1.0),
        "not ending is rewarded: the penalty is subtracted",
    ),
    Mutant(
        "score in the last column",
        Update(score_at="column"),
        "the score is paid in the last column: it belongs to the last token that counts",
    ),
    Mutant(
        "score on every token",
        Update(score_at="everywhere"),
        "the score is paid on every token: it is paid once, on the last one that counts",
    ),
    Mutant(
        "the value of a pad",
        Update(behind_the_end=True),
        "the last token is bootstrapped with the value of the pad behind it: behind the last token "
        "there is nothing",
    ),
    Mutant(
        "trace lost",
        Update(trace=False),
        "`lam` has no effect: the advantages are the temporal differences alone",
    ),
    Mutant(
        "whitened with pads",
        Update(moments="all"),
        "mean and standard deviation of the advantages include the pads, which are zeros: the "
        "shorter the answers, the stranger the result",
    ),
    Mutant(
        "whitened row by row",
        Update(moments="rows"),
        "each answer is whitened by itself, which removes what it was worth: take all counted "
        "tokens of the batch",
    ),
    Mutant(
        "not whitened",
        Update(whitened=False),
        "the advantages enter the surrogate as they are: whiten them over the counted tokens",
    ),
    Mutant(
        "targets from whitened advantages",
        Update(targets="whitened"),
        "the critic's target is made from whitened advantages: form the returns first, then whiten",
    ),
    Mutant(
        "advantages as targets",
        Update(targets="advantages"),
        "the critic is trained on the advantages: its target is advantage plus recorded value",
    ),
    Mutant(
        "ratio always 1",
        Update(ratio="always 1"),
        "the current policy is taken for the old one, so the ratio is always 1 and nothing is "
        "clipped: use the recorded log-probabilities",
    ),
    Mutant(
        "ratio upside down",
        Update(ratio="old over new"),
        "the ratio is old over new: it is exp(new - old)",
    ),
    Mutant(
        "the larger of the two",
        Update(pick="max"),
        "the larger of the two surrogates is taken: PPO takes the smaller one",
    ),
    Mutant(
        "divided by all positions",
        Update(reduce="positions"),
        "the losses are divided by all positions, pads included: divide by the number of counted "
        "tokens",
    ),
    Mutant(
        "mean of means",
        Update(reduce="rows"),
        "each answer is averaged by itself and then the answers: here every counted token weighs "
        "the same",
    ),
    Mutant(
        "critic detached",
        Update(critic_detached=True),
        "no gradient reaches the critic: its values are detached in its own loss",
    ),
    Mutant(
        "half missing",
        Update(half=1.0),
        "the square of the critic's error is not halved",
    ),
    Mutant(
        "coefficient ignored",
        Update(value_coefficient_used=False),
        "`value_coefficient` has no effect: it multiplies the critic's loss",
    ),
)
