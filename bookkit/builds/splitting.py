"""A stage that trains on two processes and compares with one; known mistakes are played through."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bookkit.builds.network import CLASSES, FEATURES, network
from bookkit.builds.ranks import Exchange, together
from bookkit.builds.session import Session, Stopped
from bookkit.builds.verdict import Finding
from bookkit.builds.wire import Arrays

Gradients = list[Tensor]
TOLERANCE = 3e-5  # of weights near 1, after sums in another order
ROWS, LONGEST = 6, 9


@dataclass(frozen=True)
class Rows:
    """One rank's part of a batch: features (B, T, F), classes (B, T), mask (B, T) float32."""

    x: Tensor
    y: Tensor
    mask: Tensor

    def arrays(self) -> Arrays:
        """As they are sent."""
        return {"x": self.x.numpy(), "y": self.y.numpy(), "mask": self.mask.numpy()}


@dataclass(frozen=True)
class SplitStage:
    """Train with each rank on its rows; all ranks must end where one process on all rows ends.

    Attributes:
        title: of the stage.
        settings: steps, learning_rate, momentum, max_grad_norm.
        ranks: number of processes.
        messages: collectives a step, at most.

    """

    title: str
    settings: Mapping[str, Any]
    ranks: int
    messages: int

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Start the other ranks, train, compare."""
        steps = int(self.settings["steps"])
        rows = [self.rows(draw, step) for step in range(steps)]
        starts = [network(draw.randrange(2**31)) for _ in range(self.ranks)]

        def batch(rank: int, step: int) -> Arrays:
            if not 0 <= step < steps:
                raise Stopped(f"`world.batch` has steps 0 to {steps - 1}; rank {rank} wants {step}")
            return rows[step][rank].arrays()

        exchange, before = Exchange(self.ranks, batch), session.meter.seconds
        calls = [
            (
                {"settings": dict(self.settings), "world": {"rank": rank, "size": self.ranks}},
                {name: x.numpy() for name, x in start.state_dict().items()},
            )
            for rank, start in enumerate(starts)
        ]
        others = [session.another() for _ in range(self.ranks - 1)]
        try:
            replies = together([session, *others], exchange, calls)
        finally:
            for other in others:
                other.close()
        ends = [checked(reply.arrays, starts[0]) for reply in replies]
        symptom = self._symptom(ends, starts, rows, exchange)
        away = apart(ends[0], play(starts[0], rows, self.settings, whole))
        size = sum(p.numel() for p in starts[0].parameters()) * 4
        said = (
            f"after {steps} steps the weights of {self.ranks} processes are within {away:.1e} of "
            f"those of one; {exchange.calls} messages, "
            f"{exchange.bytes_sent / (steps * size):.2f} times the gradient a step"
        )
        return Finding(
            self.title,
            symptom is None,
            said if symptom is None else f"{symptom} ({said}.)",
            used=steps,
            unit="steps of the optimiser",
            processor_seconds=session.meter.seconds - before,
        )

    def rows(self, draw: random.Random, step: int) -> list[Rows]:
        """The rows of every rank: of unequal lengths, and none at all in one step."""
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        found = []
        for rank in range(self.ranks):
            x = torch.randn(ROWS, LONGEST, FEATURES, generator=generator)
            y = torch.randint(0, CLASSES, (ROWS, LONGEST), generator=generator)
            longest = LONGEST if rank == 0 else 3
            lengths = torch.randint(1, longest + 1, (ROWS, 1), generator=generator)
            if step == 2 and rank == self.ranks - 1:
                lengths.zero_()
            found.append(Rows(x, y, (torch.arange(LONGEST) < lengths).float()))
        return found

    def _symptom(
        self,
        ends: list[list[Tensor]],
        starts: list[nn.Sequential],
        rows: list[list[Rows]],
        exchange: Exchange,
    ) -> str | None:
        """None where all is equal; else the mistake that leads to these very weights."""
        away = max(apart(end, ends[0]) for end in ends)
        if away > 0:
            if exchange.calls == 0:
                return "No message was sent: each rank trains alone."
            return (
                f"The ranks end with different weights (by {away:.1e}): they did not begin with "
                "those "
                "of rank 0, or not every gradient was summed."
            )
        if apart(ends[0], play(starts[0], rows, self.settings, whole)) > TOLERANCE:
            for sentence, mistake in MISTAKES.items():
                if apart(ends[0], play(starts[0], rows, self.settings, mistake)) <= TOLERANCE:
                    return sentence
            return (
                "The weights are those of no mistake that is known here: compare one step by hand."
            )
        allowed = self.messages * (int(self.settings["steps"]) + 1)
        if exchange.calls > allowed:
            return (
                f"{exchange.calls} messages were sent, at most {allowed} pass: put the gradients "
                "of "
                "all parameters into one message."
            )
        return None


def checked(arrays: Arrays, like: nn.Sequential) -> list[Tensor]:
    """The weights of a rank.

    Raises:
        Stopped: other names or shapes, or numbers that are not finite.

    """
    wanted = like.state_dict()
    if arrays.keys() != wanted.keys() or any(arrays[n].shape != x.shape for n, x in wanted.items()):
        raise Stopped("your file must return the model that it was given; these are other weights")
    if any(x.dtype != np.float32 for x in arrays.values()):
        raise Stopped("your file must return float32 weights, as those of the model it was given")
    if not all(np.isfinite(x).all() for x in arrays.values()):
        raise Stopped(
            "the weights are not finite: a rank may have no token in a step, and divides by 0"
        )
    return [torch.from_numpy(arrays[name]) for name in wanted]


def apart(some: list[Tensor], others: list[Tensor]) -> float:
    """The largest difference of two lists of weights."""
    return max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))


def play(
    start: nn.Sequential,
    rows: list[list[Rows]],
    settings: Mapping[str, Any],
    way: Callable[[nn.Sequential, list[Rows], float], Gradients],
) -> list[Tensor]:
    """Train in one process with gradients that are made in a given way; the weights at the end."""
    model = network()
    model.load_state_dict(start.state_dict())
    optimiser = torch.optim.SGD(
        model.parameters(), lr=settings["learning_rate"], momentum=settings["momentum"]
    )
    for parts in rows:
        for parameter, gradient in zip(
            model.parameters(), way(model, parts, settings["max_grad_norm"]), strict=True
        ):
            parameter.grad = gradient
        optimiser.step()
    return [parameter.detach() for parameter in model.parameters()]


def summed(model: nn.Sequential, part: Rows) -> Gradients:
    """Gradients of the sum of a part's losses."""
    losses = F.cross_entropy(model(part.x).flatten(0, 1), part.y.flatten(), reduction="none")
    return list(torch.autograd.grad((losses * part.mask.flatten()).sum(), list(model.parameters())))


def clipped(gradients: Gradients, limit: float) -> Gradients:
    """As `torch.nn.utils.clip_grad_norm_` makes them."""
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient * (limit / (norm + 1e-6)).clamp(max=1.0) for gradient in gradients]


def _over(model: nn.Sequential, parts: list[Rows], counts: list[float]) -> Gradients:
    """The sum over the ranks of gradients, each divided by a number."""
    each = [summed(model, part) for part in parts]
    return [
        torch.stack([g / count for g, count in zip(gradients, counts, strict=True)]).sum(0)
        for gradients in zip(*each, strict=True)
    ]


def _tokens(parts: list[Rows]) -> list[float]:
    return [float(part.mask.sum()) for part in parts]


def whole(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """What is right: the mean over all tokens of all ranks, then the clip."""
    return clipped(_over(model, parts, [sum(_tokens(parts))] * len(parts)), limit)


def mean_of_means(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """Each rank divides by its own tokens, and the ranks are averaged."""
    counts = [max(1.0, n) * len(parts) for n in _tokens(parts)]
    return clipped(_over(model, parts, counts), limit)


def sum_of_means(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """Each rank divides by its own tokens, and the ranks are added up."""
    return clipped(_over(model, parts, [max(1.0, n) for n in _tokens(parts)]), limit)


def not_divided(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """The sum over all tokens, which the clip hides in part."""
    return clipped(_over(model, parts, [1.0] * len(parts)), limit)


def divided_twice(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """The mean over all tokens, divided by the number of ranks once more."""
    return clipped(_over(model, parts, [sum(_tokens(parts)) * len(parts)] * len(parts)), limit)


def clip_first(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """Each rank clips its part before the sum."""
    count = sum(_tokens(parts))
    each = [clipped([g / count for g in summed(model, part)], limit) for part in parts]
    return [torch.stack(gradients).sum(0) for gradients in zip(*each, strict=True)]


def unclipped(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """The mean over all tokens, and no clip."""
    return _over(model, parts, [sum(_tokens(parts))] * len(parts))


def unmasked(model: nn.Sequential, parts: list[Rows], limit: float) -> Gradients:
    """What stands behind the end of a row counts too."""
    full = [Rows(part.x, part.y, torch.ones_like(part.mask)) for part in parts]
    return whole(model, full, limit)


MEANS = "each rank divides by its own number of tokens; divide by the number of all ranks together."
MISTAKES: dict[str, Callable[[nn.Sequential, list[Rows], float], Gradients]] = {
    f"A mean of means: {MEANS}": mean_of_means,
    f"A sum of means: {MEANS}": sum_of_means,
    "The sum of the losses is not divided by the number of tokens of all ranks.": not_divided,
    "Divided by the number of ranks once too often: the global count holds all ranks already.": (
        divided_twice
    ),
    "Each rank clips its own gradient before the sum: clip the sum.": clip_first,
    "The gradient is not clipped: `max_grad_norm` bounds the norm of the summed gradient.": (
        unclipped
    ),
    "The mask is not used: what stands behind the end of a row counts.": unmasked,
}
