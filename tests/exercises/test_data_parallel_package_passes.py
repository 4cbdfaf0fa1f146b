"""The package's own functions pass the checks of chapter 32's exercises.

Two implementations that never saw each other, and an oracle that saw neither.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from bookkit.exercises.registry import get_exercise
from nbkit.parallel import ports
from nbkit.parallel.base import Parallel
from nbkit.parallel.by_hand import ring
from nbkit.parallel.by_hand.buckets import make_buckets
from nbkit.parallel.counts import local_share
from nbkit.parallel.world import World

pytestmark = pytest.mark.chapter(32)
exercise_buckets = get_exercise("ddp.buckets.1").reference


def ring_in_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A thread a rank; the messages of one step meet at a barrier and go through the wire."""

    def all_reduce(x: Tensor, wire: Callable[[Tensor], Tensor]) -> Tensor:
        size = x.shape[0]
        outgoing: list[Any] = [None] * size
        arrived: list[Tensor] = []

        def deliver() -> None:
            arrived[:] = list(wire(torch.stack(outgoing)))

        barrier = Barrier(size, deliver)

        def exchange(sent: Tensor, incoming: Tensor, rank: int, _: int) -> None:
            outgoing[rank] = sent.clone()
            barrier.wait(10)
            incoming.copy_(arrived[rank])

        def one(rank: int) -> Tensor:
            row = torch.nn.functional.pad(x[rank], (0, -x.shape[1] % size)).clone()
            chunks = list(row.chunk(size))
            whole = ring.ring_reduce_scatter(chunks, rank, size)
            ring.ring_all_gather(chunks, whole, rank, size)
            return row[: x.shape[1]]

        monkeypatch.setattr(ring, "exchange", exchange)
        with ThreadPoolExecutor(size) as threads:
            return torch.stack(list(threads.map(one, range(size))))

    return all_reduce


def test_a_sum_that_is_read_from_the_other_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the messages are the right ones, in number and in size."""
    all_reduce = ring_in_threads(monkeypatch)

    def half(x: Tensor, wire: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.cat([all_reduce(x, wire)[:, :1], x.sum(0).expand_as(x)[:, 1:]], 1)

    result = verdict_on(bench_for("ddp.ring.1", 3), half)
    assert not result.passed
    assert "needs the wire" in result.message


def tokens(losses: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    return local_share(torch.where(mask, losses, 0.0).sum(), int(counts.sum()), len(counts))


def rows(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> tuple[list[int], list[int]]:
    class Anybody:
        world = World(rank, ranks)

    mine = Parallel.share(Anybody(), batch)  # type: ignore[arg-type]
    places = range(step * batch * group_size, (step + 1) * batch * group_size)
    chosen = list(places)[mine.start * group_size : mine.stop * group_size]
    return [order[place // group_size] for place in chosen], chosen


def passes(exercise_id: str, function: Callable[..., Any]) -> None:
    for seed in (2, 3, 4):
        result = verdict_on(bench_for(exercise_id, seed), function)
        assert result.passed, result.message


def test_ring_of_the_package_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes("ddp.ring.1", ring_in_threads(monkeypatch))


@pytest.mark.parametrize(
    ("exercise_id", "function"),
    [("ddp.buckets.1", make_buckets), ("ddp.tokens.1", tokens), ("ddp.streams.1", rows)],
)
def test_package_passes_in_one_process(exercise_id: str, function: Callable[..., Any]) -> None:
    passes(exercise_id, function)


def test_port_of_the_package_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a network of the check's own: what is busy there cannot be bound."""

    def pick_port(
        job: int, busy: list[int], first: int, last: int, low: int, high: int
    ) -> int | None:
        class Probe:
            def __enter__(self) -> "Probe":
                return self

            def __exit__(self, *_: object) -> None:
                return None

            def bind(self, address: tuple[str, int]) -> None:
                if address[1] in busy:
                    raise OSError("address already in use")

        monkeypatch.setattr(ports, "ephemeral_range", lambda: (low, high))
        monkeypatch.setattr(ports.socket, "socket", Probe)
        try:
            return ports.free_port(job, first, last)
        except RuntimeError:
            return None

    passes("ddp.ports.1", pick_port)


def test_buckets_may_be_tuples() -> None:
    def tuples(sizes: list[int], limit: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(bucket) for bucket in exercise_buckets(sizes, limit))

    passes("ddp.buckets.1", tuples)
