"""Who is asked what: numbered tickets, so that each group is trained on exactly once.

The trainer draws prompts and seeds, in the order in which the synchronous trainer draws them, and
hands out a ticket for each group. A ticket stays open until its group has been trained on. What
was lost on the way (a generator that died, a group that was dropped) is asked again by the same
ticket: the same prompt and the same seeds under the same number.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbkit.asynchronous.capacity import may_start
from nbkit.generate.sampling import row_seeds
from nbkit.trainers.data_order import PromptStream


@dataclass(frozen=True)
class Ticket:
    """One group that is asked for.

    Attributes:
        number: from 0, in the order of asking.
        prompt: index of the problem.
        seeds: one a completion.
        version: of the trainer when it was first asked for; it is sampled with these weights, or
            with newer ones.

    """

    number: int
    prompt: int
    seeds: tuple[int, ...]
    version: int


def seeds_of(tickets: Iterable[Ticket]) -> Tensor:
    """(R,) the seeds of all completions, in the order of the tickets."""
    return torch.tensor([seed for ticket in tickets for seed in ticket.seeds])


class Ledger:
    """Tickets that are open, and how many there have been.

    Args:
        stream: of the prompts; its generator draws the seeds too.
        batch_size: groups of an update.
        group_size: completions of a group.
        staleness: see ``nbkit.asynchronous.capacity``.
        last: tickets of the whole run; a multiple of `batch_size`.

    Attributes:
        issued: tickets since the run began.

    """

    def __init__(
        self, stream: PromptStream, batch_size: int, group_size: int, staleness: int, last: int
    ) -> None:
        self._stream, self._batch, self._size = stream, batch_size, group_size
        self._staleness, self._last = staleness, last
        self._open: dict[int, Ticket] = {}
        self.issued = 0

    @property
    def trained(self) -> int:
        """Groups that were trained on: all that were issued and are not open any more."""
        return self.issued - len(self._open)

    def open(self) -> list[Ticket]:
        """Tickets whose group has not been trained on, by number."""
        return [self._open[number] for number in sorted(self._open)]

    def issue(self, version: int) -> list[Ticket]:
        """Draw as many tickets as the rule of admission allows at this version, a batch at a time.

        A batch of prompts is drawn, then its seeds, as the synchronous trainer does.
        """
        new: list[Ticket] = []
        while may_start(self.issued, version, self._batch, self._staleness, last=self._last):
            prompts = self._stream.take(self._batch)
            generator = self._stream.generator
            seeds = row_seeds(generator, self._batch * self._size, "cpu").view(self._batch, -1)
            for prompt, row in zip(prompts, seeds.tolist(), strict=True):
                new.append(Ticket(self.issued, prompt, tuple(row), version))
                self.issued += 1
        self._open |= {ticket.number: ticket for ticket in new}
        return new

    def close(self, numbers: Iterable[int]) -> None:
        """Note that groups were trained on.

        Raises:
            ValueError: one was trained on before, or was never asked for.

        """
        for number in numbers:
            if number not in self._open:
                why = "was never asked for" if number >= self.issued else "was trained on before"
                raise ValueError(f"group {number} {why}; a group counts once")
            del self._open[number]

    def state_dict(self) -> dict[str, Any]:
        """Plain data: the open tickets, and how many there were."""
        return {
            "issued": self.issued,
            "open": [[t.number, t.prompt, list(t.seeds), t.version] for t in self.open()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.issued = state["issued"]
        self._open = {
            number: Ticket(number, prompt, tuple(seeds), version)
            for number, prompt, seeds, version in state["open"]
        }
