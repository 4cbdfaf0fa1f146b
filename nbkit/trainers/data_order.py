"""The order in which data are learned from: resumable, and the same on every rank."""

from collections.abc import Iterator
from typing import Any

import torch


class PromptStream:
    """Item numbers without end: each epoch is a new permutation, none comes twice in one.

    Attributes:
        generator: of the permutations; shared with the sampler where there is one.

    Raises:
        ValueError: no items.

    """

    def __init__(self, count: int, generator: torch.Generator, name: str = "problems") -> None:
        if count < 1:
            raise ValueError(f"{name}: an empty list has nothing to learn from")
        self.count, self.generator = count, generator
        self._order, self._position = torch.empty(0, dtype=torch.long), 0

    def take(self, number: int) -> list[int]:
        """The next `number` items."""
        taken: list[int] = []
        while len(taken) < number:
            if self._position == len(self._order):
                device = self.generator.device
                order = torch.randperm(self.count, generator=self.generator, device=device)
                self._order, self._position = order.cpu(), 0
            part = self._order[self._position : self._position + number - len(taken)]
            self._position += len(part)
            taken += part.tolist()
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What is left of this epoch."""
        return {"order": self._order.clone(), "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self._order, self._position = state["order"].clone(), state["position"]


def endless(count: int, generator: torch.Generator) -> Iterator[int]:
    """Numbers below ``count`` without end, in the order of a ``PromptStream``."""
    stream = PromptStream(count, generator, "examples")
    while True:
        yield from stream.take(1)
