"""Messages between the ranks of a build: the judge carries them, and says who waits for whom."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bookkit.builds.session import Reply, Session, Stopped
from bookkit.builds.wire import Arrays

COLLECTIVES = ("all_reduce", "broadcast")
Batch = Callable[[int, int], Arrays]


@dataclass(frozen=True)
class Message:
    """What a rank has handed in."""

    kind: str
    array: NDArray[np.float32]


class Exchange:
    """Carries collectives between ranks that run in threads of the judge.

    Args:
        size: number of ranks.
        batch: rank and step to the rows of that rank.

    Attributes:
        calls: collectives that all ranks have made.
        bytes_sent: that one rank has sent in them.

    """

    def __init__(self, size: int, batch: Batch) -> None:
        self.size, self._batch = size, batch
        self.calls, self.bytes_sent = 0, 0
        self._here: dict[int, Message] = {}
        self._done: dict[int, NDArray[np.float32]] = {}
        self._left: dict[int, str] = {}
        self._changed = threading.Condition()

    def answer(self, rank: int, kind: str, data: dict[str, Any], arrays: Arrays) -> Arrays:
        """Answer what a rank asks; waits for the other ranks in a collective.

        Raises:
            Stopped: the ranks do not fit together.

        """
        if kind == "batch":
            step = data.get("step")
            if type(step) is not int:
                raise Stopped(f"`world.batch` wants the number of a step; it got {step!r}")
            return self._batch(rank, step)
        array = arrays.get("x")
        if kind not in COLLECTIVES or array is None or array.dtype != np.float32:
            raise Stopped(f"your process asked for {kind!r}, which the world does not answer")
        return {"x": self._meet(rank, Message(kind, array))}

    def leave(self, rank: int, how: str) -> None:
        """Say that a rank takes no further part."""
        with self._changed:
            self._left[rank] = how
            self._changed.notify_all()

    def _meet(self, rank: int, message: Message) -> NDArray[np.float32]:
        with self._changed:
            self._here[rank] = message
            if len(self._here) == self.size:
                self._finish()
            while rank not in self._done:
                gone = [f"rank {other} {how}" for other, how in sorted(self._left.items())]
                if gone:
                    raise Stopped(
                        f"rank {rank} waits in `{message.kind}` for ever, for {', '.join(gone)}: a "
                        "collective is called by every rank, equally often, in the same order"
                    )
                self._changed.wait(1.0)
            return self._done.pop(rank)

    def _finish(self) -> None:
        kinds = {message.kind for message in self._here.values()}
        shapes = {message.array.shape for message in self._here.values()}
        if len(kinds) > 1 or len(shapes) > 1:
            told = [
                f"rank {rank} is in `{m.kind}` with the shape {m.array.shape}"
                for rank, m in sorted(self._here.items())
            ]
            self._left = dict.fromkeys(self._here, "is elsewhere")
            raise Stopped(f"the ranks do not meet: {'; '.join(told)}")
        arrays = [self._here[rank].array for rank in range(self.size)]
        total = arrays[0].copy()
        for array in arrays[1:] if kinds == {"all_reduce"} else []:
            total += array
        self.calls += 1
        self.bytes_sent += arrays[0].nbytes
        self._done = dict.fromkeys(range(self.size), total)
        self._here = {}
        self._changed.notify_all()


def together(
    sessions: Sequence[Session], exchange: Exchange, calls: Sequence[tuple[dict[str, Any], Arrays]]
) -> list[Reply]:
    """Call `train` in every session at once.

    Args:
        sessions: one a rank.
        exchange: carries their messages.
        calls: data and arrays for each rank.

    Raises:
        Stopped: of the first rank that did not end well.

    """
    replies: dict[int, Reply] = {}
    ends: list[tuple[int, BaseException]] = []

    def run(rank: int) -> None:
        def answer(
            kind: str, data: dict[str, Any], arrays: Arrays
        ) -> tuple[dict[str, Any], Arrays]:
            return {}, exchange.answer(rank, kind, data, arrays)

        data, arrays = calls[rank]
        try:
            replies[rank] = sessions[rank].call("train", data, arrays, answer=answer)
        except BaseException as error:
            ends.append((rank, error))
            exchange.leave(rank, "has ended with an error")
        else:
            exchange.leave(rank, "has returned")

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if ends:
        rank, error = ends[0]
        if isinstance(error, Stopped):
            raise Stopped(f"rank {rank}: {error}") from error
        raise error
    return [replies[rank] for rank in range(len(sessions))]
