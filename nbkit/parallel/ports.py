"""A port that is free, and that the operating system does not hand out by itself."""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST, LAST = 20_000, 29_999


def ephemeral_range() -> tuple[int, int]:
    """First and last port that the system gives to outgoing connections."""
    if not _RANGE.exists():  # not Linux: the range that IANA suggests
        return 49_152, 65_535
    low, high = _RANGE.read_text().split()
    return int(low), int(high)


def candidate(number: int, first: int = FIRST, last: int = LAST) -> int:
    """The port of a job by its number: consecutive numbers never share one."""
    return first + number % (last - first + 1)


def free_port(start: int = 0, first: int = FIRST, last: int = LAST) -> int:
    """The first free port from that of job `start` on, outside the ephemeral range.

    Args:
        start: number of the job, say the process id: two jobs seldom begin at one place.
        first: smallest port considered.
        last: largest.

    Raises:
        RuntimeError: no port is free.

    """
    for port in _allowed(start, first, last):
        if _unbound(port):
            return port
    raise RuntimeError(f"no port from {first} to {last} is free on this machine")


@contextmanager
def reserved_port(start: int = 0, first: int = FIRST, last: int = LAST) -> Iterator[int]:
    """A free port that no other caller of this function gets until the block is left.

    Between the moment at which a port is found free and that at which somebody listens there, a
    second job may find it free as well. So each port has a lock, which ends with its process.

    Args:
        start: as in ``free_port``.
        first: smallest port considered.
        last: largest.

    Raises:
        RuntimeError: no port is free.

    """
    folder = Path(tempfile.gettempdir())
    for port in _allowed(start, first, last):
        path = folder / f"nbkit_port_{port}_{os.getuid()}.lock"
        with path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody holds it
                continue
            if _unbound(port):
                yield port
                return
    raise RuntimeError(f"no port from {first} to {last} is free on this machine")


def _allowed(start: int, first: int, last: int) -> Iterator[int]:
    """Each port once, from that of job `start` on, without those of the system."""
    low, high = ephemeral_range()
    for offset in range(last - first + 1):
        port = candidate(start + offset, first, last)
        if not low <= port <= high:
            yield port


def _unbound(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
