"""Process 1 of a sandbox: it counts what all processes in it use, and tells the outside.

Nobody inside can end process 1 or write to its pipe. The outside decides; here is only counted.
"""

import contextlib
import json
import os
import time
from pathlib import Path

EVERY_S = 0.1
PROC = Path("/proc")


class Count:
    """The processor seconds of all processes of the sandbox, dead ones included, and its memory."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], float] = {}
        self._tick = float(os.sysconf("SC_CLK_TCK"))
        self._page = os.sysconf("SC_PAGE_SIZE")

    def look(self) -> dict[str, float]:
        """Look at every process; "seconds" never falls, "bytes" are resident now."""
        resident = 0
        for folder in PROC.iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                own = (int(fields[11]) + int(fields[12])) / self._tick
                key = int(folder.name), int(fields[19])
                self._seen[key] = max(own, self._seen.get(key, 0.0))
                resident += int((folder / "statm").read_text().split()[1]) * self._page
        return {"seconds": sum(self._seen.values()), "bytes": resident}


def supervise(worker: int, reports: int) -> None:
    """Tell what is used, ten times a second, until the worker has ended.

    Args:
        worker: process id of the only child.
        reports: descriptor of a pipe; one line of JSON a report.
    """
    os.set_blocking(reports, False)
    count = Count()
    ended = False
    while not ended:
        time.sleep(EVERY_S)
        line = json.dumps(count.look()) + "\n"
        with contextlib.suppress(BlockingIOError):  # nobody reads just now; the next one will do
            os.write(reports, line.encode())
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                ended = ended or pid == worker
