"""A language so small that all its answers can be listed, and with them the best policy.

A policy that maximises a score minus beta times its KL from the reference is
`reference * exp(score / beta) / Z`, and what it reaches is `beta * log Z` (chapter 21, the
derivation of the best policy). Here both are sums over all answers.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit.text.policies import LSTMPolicy

WIDTH, SIZE, ANSWER = 24, 7, 4
PAD, BOS, EOS = 0, 1, 2
Score = Callable[[Tensor, Tensor], Tensor]  # prompts (B, P), answers (B, T) -> (B,)


@dataclass(frozen=True)
class Tiny:
    """Seven words, two prompts, answers of at most four tokens.

    Attributes:
        policy: with random weights; the reference.
        prompts: (2, 3).
        order: the numbers under which the words are known in this run, (SIZE,).

    """

    policy: LSTMPolicy
    prompts: Tensor
    order: Tensor

    @classmethod
    def drawn(cls, draw: random.Random) -> "Tiny":
        """Draw weights, and which number stands for which word."""
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        order = torch.randperm(SIZE, generator=generator)
        policy = LSTMPolicy(SIZE, width=WIDTH)
        with torch.no_grad():
            for name, weights in policy.named_parameters():
                scale = {"embedding.weight": 1.0, "head.weight": 0.25, "head.bias": 0.5}
                noise = torch.randn(weights.shape, generator=generator)
                weights.copy_(scale.get(name, 0.3) * noise)
            policy.head.bias[order[EOS]] = 0.5
        prompts = order[torch.tensor([[PAD, BOS, 3], [BOS, 4, 5]])]
        return cls(policy.requires_grad_(False), prompts, order)

    @property
    def ids(self) -> tuple[int, int, int]:
        """Of PAD, BOS and EOS."""
        pad_id, bos_id, eos_id = self.order[[PAD, BOS, EOS]].tolist()
        return pad_id, bos_id, eos_id

    def every_answer(self) -> tuple[Tensor, Tensor]:
        """All answers, (N, ANSWER), with pads behind their end, and the mask of their tokens."""
        pad_id, _, eos_id = self.ids
        rows: list[list[int]] = []
        open_rows: list[list[int]] = [[]]
        for _ in range(ANSWER):
            longer = [[*row, token] for row in open_rows for token in range(SIZE)]
            rows += [row for row in longer if row[-1] == eos_id]
            open_rows = [row for row in longer if row[-1] != eos_id]
        rows += open_rows
        ids = torch.tensor([[*row, *[pad_id] * (ANSWER - len(row))] for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        return ids, torch.arange(ANSWER) < lengths[:, None]

    @torch.no_grad()
    def logprobs(self, policy: LSTMPolicy) -> Tensor:
        """Log-probability of every answer to each prompt, (2, N)."""
        ids, mask = self.every_answer()
        found = []
        for prompt in self.prompts:
            whole = torch.cat([prompt.expand(len(ids), -1), ids], 1)
            logits = policy(whole[:, :-1])[:, len(prompt) - 1 :]
            each = logits.double().log_softmax(-1).gather(-1, ids[:, :, None])[:, :, 0]
            found.append(torch.where(mask, each, 0.0).sum(1))
        return torch.stack(found)

    def scored(self, score: Score) -> Tensor:
        """The score of every answer to each prompt, (2, N)."""
        ids, _ = self.every_answer()
        return torch.stack([score(row.expand(len(ids), -1), ids) for row in self.prompts]).double()


@dataclass(frozen=True)
class Exact:
    """Of a policy, by sums over all answers.

    Attributes:
        score: its mean score.
        kl: from the reference, nats an answer.
        surprise: of the reference at its answers, nats an answer; KL plus entropy.
        by_prompt: score minus beta times KL, each prompt by itself, (2,).

    """

    score: float
    kl: float
    surprise: float
    by_prompt: Tensor

    @classmethod
    def of(cls, logprobs: Tensor, reference: Tensor, scores: Tensor, beta: float) -> "Exact":
        """From the log-probabilities and the scores of all answers, (2, N) each."""
        chances = logprobs.exp()
        score = (chances * scores).sum(1)
        kl = (chances * (logprobs - reference)).sum(1)
        surprise = -(chances * reference).sum(1).mean().item()
        return cls(score.mean().item(), kl.mean().item(), surprise, score - beta * kl)


def best(reference: Tensor, scores: Tensor, beta: float) -> Tensor:
    """Log-probabilities of the best policy, (2, N)."""
    return (reference + scores / beta).log_softmax(1)
