"""Maximum likelihood on a small corpus: where a policy gets its language from."""

from collections.abc import Sequence

import torch
from torch import nn
from tqdm import tqdm

from nbkit.logprobs import token_logprobs
from nbkit.masks import masked_mean
from nbkit.text.protocols import TextVocabulary
from nbkit.text.vocabulary import encode_batch


def pretrain(
    policy: nn.Module,
    vocabulary: TextVocabulary,
    texts: Sequence[str],
    *,
    steps: int,
    batch_size: int = 64,
    learning_rate: float = 1e-2,
    seed: int = 0,
    progress: bool = True,
) -> list[float]:
    """Train ``policy`` on ``texts`` by next-token prediction; return the loss of each step in nats.

    Args:
        policy: a policy of ``nbkit.text.policies``, changed in place.
        vocabulary: ids to text.
        texts: the corpus.
        steps: number of minibatches.
        batch_size: texts a minibatch, drawn with replacement.
        learning_rate: peak of a one-cycle schedule for Adam.
        seed: of the minibatches.
        progress: show a text progress bar.

    """
    device = next(policy.parameters()).device
    ids, mask = (x.to(device) for x in encode_batch(vocabulary, texts))
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, steps)
    losses = []
    for _ in tqdm(range(steps), desc="pretraining", disable=not progress, mininterval=5):
        rows = torch.randint(len(ids), (batch_size,), generator=generator).to(device)
        longest = int(mask[rows].sum(1).max())
        batch, real = ids[rows, : longest + 1], mask[rows, :longest]
        logits = policy(batch[:, :-1])
        loss = -masked_mean(token_logprobs(logits, batch[:, 1:]), real)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses
