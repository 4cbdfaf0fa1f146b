"""Weights that come back from a learner's process: into a policy of the judge's, and compared."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bookkit.builds.session import Stopped
from bookkit.builds.wire import Arrays
from nbkit.text.policies import LSTMPolicy


def loaded(base: LSTMPolicy, arrays: Arrays) -> LSTMPolicy:
    """The weights that came back, in a policy of the judge's.

    Args:
        base: the policy that was sent.
        arrays: by the names of its parameters.

    Raises:
        Stopped: other names or shapes, or numbers that are not finite.

    """
    wanted = checked(base.state_dict(), arrays)
    size, width = wanted["embedding.weight"].shape
    policy = LSTMPolicy(size, width=width)
    policy.load_state_dict(wanted)
    return policy.requires_grad_(False)


def checked(wanted: Mapping[str, Tensor], arrays: Arrays) -> dict[str, Tensor]:
    """The weights that came back, as tensors under their names.

    Args:
        wanted: the weights of the model that was sent.
        arrays: by the names of its parameters.

    Raises:
        Stopped: other names or shapes, or numbers that are not finite.

    """
    if arrays.keys() != wanted.keys() or any(arrays[n].shape != x.shape for n, x in wanted.items()):
        raise Stopped("your file must return the model that it was given; these are other weights")
    if any(x.dtype != np.float32 for x in arrays.values()):
        raise Stopped("your file must return float32 weights, as those of the model it was given")
    broken = [name for name, x in arrays.items() if not np.isfinite(x).all()]
    if broken:
        raise Stopped(f"the weights {broken[0]} hold numbers that are not finite")
    return {name: torch.from_numpy(x) for name, x in arrays.items()}


def unchanged(base: nn.Module, trained: nn.Module) -> bool:
    """Whether every weight is what it was."""
    pairs = zip(base.parameters(), trained.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@torch.no_grad()
def moved(
    policy: LSTMPolicy,
    base: LSTMPolicy,
    prompts: Tensor,
    length: int,
    eos_id: int,
    generator: torch.Generator,
) -> float:
    """KL(policy ‖ base) of what follows the prompts, nats an answer.

    The exact KL of each next token, at places that the policy reaches by itself; one answer a
    prompt.

    Args:
        policy: samples.
        base: what it is compared with.
        prompts: (B, P).
        length: of an answer, at most.
        eos_id: ends it.
        generator: of the samples.

    """
    states: list[Any] = [None, None]
    for place in range(prompts.shape[1]):
        first, states[0] = policy.step(prompts[:, place], states[0])
        second, states[1] = base.step(prompts[:, place], states[1])
    total, running = torch.zeros(len(prompts)), torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(length):
        logp, logq = first.log_softmax(-1), second.log_softmax(-1)
        total += torch.where(running, (logp.exp() * (logp - logq)).sum(-1), 0.0)
        tokens = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
        running = running & (tokens != eos_id)
        first, states[0] = policy.step(tokens, states[0])
        second, states[1] = base.step(tokens, states[1])
    return float(total.mean())
