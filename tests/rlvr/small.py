"""A tiny untrained model with its vocabulary, and batches made by hand."""

import torch

from nbkit.envs.arithmetic import ArithmeticVocabulary, draw_sums
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo.batch import GroupBatch
from nbkit.trainers.grpo.variants import variant
from nbkit.trainers.shares import spread_over

VOCABULARY = ArithmeticVocabulary()
PROBLEMS = draw_sums(40, seed=3)


def model(seed=0, **sizes):
    return tiny_model(VOCABULARY, **{"width": 16, "layers": 1, "heads": 2, "seed": seed} | sizes)


def config(name="grpo", **changes):
    small = {"updates": 4, "prompts": 4, "group_size": 4, "max_new_tokens": 8, "warmup": 0}
    return variant(name, **{"kl_coefficient": 0.0} | small | changes)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def alone(net, optimiser=None):
    """A model on one device, with plain gradient descent unless an optimiser is given."""
    parallel = spread_over(None, net)
    parallel.prepare(net, lambda weights: optimiser or torch.optim.SGD(weights, lr=1.0))
    return parallel


def by_length(problems, completions):
    """Characters of the text: a reward that differs within most groups of an untrained model."""
    return [float(len(completion.text)) for completion in completions]


def hand_made(rows=8, width=8, prompt=5, seed=1, group_size=4):
    """A batch of random tokens, prompts padded on the left, completions of many lengths."""
    g = generator(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=g)
    lengths[0] = width
    before = torch.randint(2, prompt + 1, (rows,), generator=g)
    mask = torch.arange(width) < lengths[:, None]
    prompts = torch.arange(prompt) >= prompt - before[:, None]
    ids = torch.randint(2, len(VOCABULARY), (rows, prompt + width), generator=g)
    attention = torch.cat([prompts, mask], 1)
    rewards = torch.randint(0, 2, (rows,), generator=g).float()
    rewards[:2] = torch.tensor([0.0, 1.0])
    return GroupBatch(
        ids=ids.masked_fill(~attention, VOCABULARY.pad_id),
        attention=attention,
        mask=mask,
        logprobs=(-torch.rand(rows, width, generator=g) - 1) * mask,
        rewards=rewards,
        raw_rewards=rewards,
        valid=torch.ones(rows, dtype=torch.bool),
        truncated=lengths == width,
        advantages=torch.randn(rows, 1, generator=g) * mask,
        ref_logprobs=(-torch.rand(rows, width, generator=g) - 1) * mask,
    )
