"""A port that is free, and that the operating system does not hand out by itself."""

import socket
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
    low, high = ephemeral_range()
    for offset in range(last - first + 1):
        port = candidate(start + offset, first, last)
        if low <= port <= high:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port from {first} to {last} is free on this machine")
