"""Between the schedule and the device: prompts in, decode steps, and news of rows that ended.

On a GPU the host runs ahead. It replays a chunk of steps, asks for the flags of ended rows, and
reads the answer only after the next chunk is under way, so the GPU never waits for the host.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.generate.graph import GraphedStep
from nbkit.generate.options import EngineOptions, Sampling
from nbkit.generate.session import Session

SHRINK_BELOW = 0.75
SMALLEST_GRAPH = 8
CHECK_EVERY = {"cpu": 1, "cuda": 16}


class Runner:
    """Drives one session.

    Args:
        session: slots and their state.
        options: how to compute.

    """

    def __init__(self, session: Session, options: EngineOptions) -> None:
        self.session, self.options = session, options
        self.device = session.decoder.device
        self.graphs = self.device.type == "cuda" if options.graph is None else options.graph
        self._steps: dict[tuple[int, Sampling], Callable[[], None]] = {}
        self._compiled: dict[int, Any] = {}
        self._pool: Any = None
        self._asked: list[tuple[Any, Tensor, list[int]]] = []
        self._spans: list[tuple[Any, Any]] = []

    def forget_graphs(self) -> None:
        """Drop what was recorded; weights have moved."""
        self._steps.clear()
        self._pool = None

    def start(self, sampling: Sampling) -> None:
        """Begin a call: empty slots, and the graph of the full batch."""
        self.session.reset()
        self._asked.clear()
        self._spans.clear()
        if self.graphs:
            self._step(self.session.slots, sampling)

    def check_every(self, sampling: Sampling) -> int:
        """Decode steps until the next look at the flags; without EOS ids there is none."""
        if not sampling.eos_ids:
            return 1 << 30
        return self.options.check_every or CHECK_EVERY.get(self.device.type, 1)

    def smaller_batch(self, live: int, batch_size: int) -> int:
        """The batch to go on with: exact without graphs, halves of all slots with them."""
        if not self.graphs:
            return live if live <= SHRINK_BELOW * batch_size else batch_size
        while batch_size // 2 >= max(live, SMALLEST_GRAPH):
            batch_size //= 2
        return batch_size

    def decode(
        self,
        batch_size: int,
        steps: int,
        horizon: int,
        sampling: Sampling,
        *,
        aligned: bool = False,
    ) -> None:
        """Run decode steps of the first `batch_size` slots.

        Args:
            batch_size: slots.
            steps: how many.
            horizon: columns in use after the last of them.
            sampling: what to draw.
            aligned: all running rows are of one length.

        """
        begin = self._now()
        if self.graphs:
            replay = self._step(batch_size, sampling)
            for _ in range(steps):
                replay()
        else:
            length = self.session.cache.length
            for step in range(steps):
                if self.options.compile:
                    self.session.step(batch_size, sampling, length)
                else:
                    self.session.step(batch_size, sampling, horizon - steps + step + 1, aligned)
        self._spans.append((begin, self._now()))

    def decode_seconds(self) -> float:
        """Time of all decode steps of this call, by the clock of the device; waits for them."""
        if self.device.type != "cuda":
            return sum(end - begin for begin, end in self._spans)
        torch.cuda.synchronize(self.device)
        return sum(begin.elapsed_time(end) for begin, end in self._spans) / 1e3

    def _now(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _step(self, batch_size: int, sampling: Sampling) -> Callable[[], None]:
        key = batch_size, sampling
        if key not in self._steps:
            session = self.session
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            graphed = GraphedStep(lambda: session.step(batch_size, sampling), self._pool)
            # Warming up must move nobody: a slot that is done only rewrites its last column.
            done = session.state["done"].clone()
            session.state["done"].fill_(1)
            graphed.record()
            session.state["done"].copy_(done)
            self._steps[key] = graphed
        return self._steps[key]

    def ended(self, rows: list[int]) -> list[int]:
        """Slots whose row has ended, as far as is known without waiting."""
        if self.device.type != "cuda":
            done = self.session.state["done"].tolist()
            return [slot for slot, row in enumerate(rows) if row >= 0 and done[slot]]
        flags = torch.empty(self.session.slots, dtype=torch.int32, pin_memory=True)
        flags.copy_(self.session.state["done"], non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._asked.append((event, flags, list(rows)))
        if len(self._asked) < 2:
            return []
        event, flags, then = self._asked.pop(0)
        event.synchronize()
        known = enumerate(zip(rows, then, flags.tolist(), strict=True))
        return [slot for slot, (row, past, flag) in known if row >= 0 and row == past and flag]

    def copy(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """Copy prompts between slots: (source, target, width) each."""
        if copies:
            width = max(width for _, _, width in copies)
            sources, targets = ([pair[i] for pair in copies] for i in (0, 1))
            self.session.cache.copy_slots(self._tensor(sources), self._tensor(targets), width)

    def prefill(self, prompts: Sequence[tuple[Sequence[int], list[int]]]) -> None:
        """Read prompts of similar length together; each goes to all of its slots."""
        ordered = sorted(prompts, key=lambda pair: len(pair[0]))
        while ordered:
            width = len(ordered[-1][0])
            count = max(1, self.options.prefill_tokens // width)
            part, ordered = ordered[-count:], ordered[:-count]
            ids = torch.zeros(len(part), width, dtype=torch.int64)
            for place, (prompt, _) in enumerate(part):
                ids[place, : len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
            slots = [slot for _, where in part for slot in where]
            sources = [place for place, (_, where) in enumerate(part) for _ in where]
            self.session.decoder.prefill(
                ids.to(self.device), self.session.cache, self._tensor(slots), self._tensor(sources)
            )

    def seat(
        self,
        slots: list[int],
        *,
        rows: list[int],
        tokens: list[int],
        positions: list[int],
        limits: list[int],
        seeds: Tensor,
    ) -> None:
        """Seat rows; each begins by decoding the last token of its prompt."""
        packed = self._tensor([*slots, *rows, *tokens, *positions, *limits]).view(5, -1)
        where, which, newest, columns, most = packed
        self.session.seat(
            where,
            rows=which,
            tokens=newest,
            positions=columns,
            limits=most,
            counts=torch.zeros_like(where),
            seeds=seeds.index_select(0, which),
        )

    def move(self, sources: list[int], targets: list[int], width: int) -> None:
        """Move rows between slots."""
        self.session.move(self._tensor(sources), self._tensor(targets), width)

    def _tensor(self, values: Sequence[int]) -> Tensor:
        tensor = torch.tensor(values, dtype=torch.int64)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor
