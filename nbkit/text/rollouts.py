"""Rollouts: what one batch of episodes leaves behind, and the loop that fills it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.logprobs import token_logprobs
from nbkit.text.environment import TextEnv
from nbkit.text.policies import TextPolicy


@dataclass(frozen=True)
class TextRollout:
    """B finished episodes of at most T tokens.

    Attributes:
        ids: (B, T+1) BOS and the sampled tokens, PAD after the end.
        mask: (B, T) bool; ``mask[:, t]`` is True where ``ids[:, t+1]`` was really sampled
            (the EOS included).
        rewards: (B, T) reward of each token; 0 where the mask is False.
        logprobs: (B, T) log-probability of each token under the policy that sampled it; 0 there.
        truncated: (B,) the length limit ended the episode.

    """

    ids: Tensor
    mask: Tensor
    rewards: Tensor
    logprobs: Tensor
    truncated: Tensor

    @property
    def tokens(self) -> Tensor:
        """(B, T) the sampled tokens, without BOS."""
        return self.ids[:, 1:]

    @property
    def lengths(self) -> Tensor:
        """(B,) number of sampled tokens, EOS included."""
        return self.mask.sum(1)

    @property
    def returns(self) -> Tensor:
        """(B,) undiscounted sum of rewards of each episode."""
        return self.rewards.sum(1)

    def texts(self, env: TextEnv) -> list[str]:
        """Decode the episodes."""
        rows = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [env.vocabulary.decode(row[:length]) for row, length in rows]


@torch.no_grad()
def rollout(
    policy: TextPolicy,
    env: TextEnv,
    batch_size: int,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> TextRollout:
    """Play ``batch_size`` episodes to their end.

    Args:
        policy: anything with ``step`` (see ``nbkit.text.policies``).
        env: the text environment; it is reset first.
        batch_size: number of parallel episodes B.
        generator: source of all randomness, on the device of the policy.
        temperature: logits are divided by it; ``logprobs`` are of the tempered distribution.

    Raises:
        ValueError: a batch size below 1, a temperature that is not positive, a policy and an
            environment with different vocabularies.

    """
    check_number("temperature", temperature, 0.0, open_low=True)
    state = env.reset(batch_size, device=generator.device)
    tokens, memory = state[:, 0], None
    running = torch.ones(batch_size, dtype=torch.bool, device=generator.device)
    masks, rewards, logprobs = [], [], []
    while running.any():
        logits, memory = policy.step(tokens, memory)
        if logits.shape[-1] != len(env.vocabulary):
            raise ValueError(
                f"policy: it scores {logits.shape[-1]} tokens, but the vocabulary of env has "
                f"{len(env.vocabulary)}"
            )
        probabilities = torch.softmax(logits.float() / temperature, -1)
        sampled = torch.multinomial(probabilities, 1, generator=generator)
        step = env.step(sampled[:, 0])
        tokens = step.state[:, -1]
        masks.append(running)
        rewards.append(step.rewards)
        scores = token_logprobs(logits[:, None], sampled, temperature=temperature)[:, 0]
        logprobs.append(torch.where(running, scores, 0.0))
        running, state = ~step.done, step.state
    return TextRollout(
        ids=state,
        mask=torch.stack(masks, 1),
        rewards=torch.stack(rewards, 1),
        logprobs=torch.stack(logprobs, 1),
        truncated=step.truncated,
    )
