"""Running a program that nobody trusts: one call, one fresh sandbox, one result.

Layers on Linux, named in the result as the kernel reports them from inside:

- new namespaces of mounts, processes, network, host name and inter-process communication, made by
  bubblewrap or, where it is not installed, by the same system calls (``_launch``);
- a user id that owns nothing, and no way to new privileges;
- a filter of system calls (``_seccomp``) on top of the namespaces;
- limits on time, address space, processes, files and output; a watch on the memory and the files of
  all processes together; and a control group for both, where this process may make one.

The first three are the minimum; without them nothing is run, unless the caller says so. What no
layer covers: faults of the kernel itself, and what can be told from time and load. The system's own
programs and libraries stay visible, read-only. A virtual machine is the next wall.
"""

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Any

from nbkit.rewards._limits import Limits
from nbkit.rewards._process import Sandbox, SandboxUnavailableError, available, borrowed

__all__ = [
    "CodeResult",
    "Limits",
    "Sandbox",
    "SandboxUnavailableError",
    "available",
    "borrowed",
    "check_limits",
    "run_code",
    "status_of",
]

DRAIN_S = 2.0


@dataclass(frozen=True)
class CodeResult:
    """What became of a program.

    Attributes:
        status: ``ok`` (it ended by itself with 0), ``error`` (it did not), ``timeout`` (of the
            clock or the processor), ``killed`` (by a limit on memory, output or processes). ``ok``
            says nothing about correctness: a program chooses its exit code and its output.
        stdout: what it printed; with stderr at most ``max_output`` bytes.
        stderr: likewise.
        seconds: of the clock, from the order to the end; the sandbox's own start not counted.
        layers: names of the protections in force.

    """

    status: str
    stdout: str
    stderr: str
    seconds: float
    layers: tuple[str, ...]


def run_code(
    code: str,
    *,
    stdin: str = "",
    timeout_s: float = 5.0,
    memory_mb: int = 512,
    max_output: int = 65536,
    allow_unprotected: bool = False,
    sandbox: Sandbox | None = None,
) -> CodeResult:
    """Run a Python program in a sandbox of its own and return what became of it.

    Args:
        code: the program; only the standard library can be imported.
        stdin: what it reads.
        timeout_s: limit on the clock; rounded up to whole seconds it also limits the processor
            time of each process.
        memory_mb: MiB of address space a process, and of resident memory of all its processes.
        max_output: bytes of stdout and stderr together; a program that writes more is killed.
        allow_unprotected: where the machine lacks the minimum of protection, run all the same;
            the layers then begin with ``unprotected``.
        sandbox: one that waits (see ``pool``); it is used up.

    Raises:
        ValueError: an argument that does not fit.
        SandboxUnavailableError: below the minimum of protection.

    """
    limits = check_limits(code, timeout_s, memory_mb, max_output)
    if not isinstance(stdin, str):
        raise ValueError(f"stdin must be a string; got {type(stdin).__name__}")
    with borrowed(sandbox, allow_unprotected=allow_unprotected) as box:
        start = time.monotonic()
        box.begin("program", code, limits)
        pump = _Pump(box, stdin.encode(), max_output)
        stopped = pump.run(start + timeout_s)
        seconds = time.monotonic() - start
        status = stopped or status_of(pump.outcome)
        return CodeResult(status, pump.text("stdout"), pump.text("stderr"), seconds, box.layers)


def check_limits(code: str, timeout_s: float, memory_mb: int, max_output: int) -> Limits:
    """Return the limits; ValueError names the argument that does not fit."""
    if not isinstance(code, str):
        raise ValueError(f"code must be a string; got {type(code).__name__}")
    for name, value in (("timeout_s", timeout_s), ("memory_mb", memory_mb)):
        if not value > 0:
            raise ValueError(f"{name} must be positive; got {value}")
    if max_output < 0:
        raise ValueError(f"max_output must not be negative; got {max_output}")
    return Limits(timeout_s, int(memory_mb * 2**20), max_output)


def status_of(outcome: dict[str, Any] | None) -> str:
    """Return the status of a program that ended by itself, or by a limit inside the sandbox."""
    if outcome is None:
        return "error"  # the supervisor was lost, with the program
    if outcome["stopped"]:
        return "killed"
    code = os.waitstatus_to_exitcode(outcome["status"])
    if code == -signal.SIGXCPU:
        return "timeout"
    if code in (-signal.SIGKILL, -signal.SIGXFSZ):
        return "killed"
    return "ok" if code == 0 else "error"


class _Pump:
    """Feeds stdin, collects stdout and stderr up to their limit, and waits for the end."""

    def __init__(self, box: Sandbox, stdin: bytes, max_output: int) -> None:
        self.box, self.stdin, self.left = box, memoryview(stdin), max_output
        self.streams = {"stdout": box.stdout, "stderr": box.stderr}
        self.output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self.outcome: dict[str, Any] | None = None
        self.over = False

    def run(self, end: float) -> str:
        """Return "" when the program has ended, or why it was stopped."""
        poller = select.poll()
        for descriptor in (*self.streams.values(), self.box.reports):
            poller.register(descriptor, select.POLLIN)
        poller.register(self.box.stdin, select.POLLOUT)
        self._feed(poller)
        while True:
            ready = dict(poller.poll(max(0.0, end - time.monotonic()) * 1000))
            if not ready:
                self.box.kill()
                self._drain()
                return "timeout"
            if self.box.stdin in ready:
                self._feed(poller)
            for name, descriptor in self.streams.items():
                if descriptor in ready and not self._take(name):
                    poller.unregister(descriptor)
            if self.over:
                self.box.kill()
                return "killed"
            if self.box.reports in ready:
                self.outcome = self.box.outcome(DRAIN_S)
                self.box.kill()
                self._drain()
                return "killed" if self.over else ""

    def text(self, name: str) -> str:
        """What was collected of one stream."""
        return b"".join(self.output[name]).decode(errors="replace")

    def _feed(self, poller: select.poll) -> None:
        try:
            while self.stdin:
                self.stdin = self.stdin[os.write(self.box.stdin, self.stdin[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # the program has closed its input
        poller.unregister(self.box.stdin)
        self.box.end_of_input()

    def _take(self, name: str) -> bool:
        """Collect what is there; False at the end of the stream."""
        try:
            data = os.read(self.streams[name], 65536)
        except BlockingIOError:
            return True
        self.over = self.over or len(data) > self.left
        self.output[name].append(data[: self.left])
        self.left -= min(len(data), self.left)
        return bool(data)

    def _drain(self) -> None:
        """What was written before the end; all writers are gone."""
        for name in self.streams:
            with contextlib.suppress(OSError):
                while self._take(name) and select.select([self.streams[name]], [], [], 0)[0]:
                    pass
