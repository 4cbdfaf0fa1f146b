"""One sandbox: started, given one job, watched, ended. Used once and thrown away.

The outside of ``_inside``. Every sandbox is a process of ours (bubblewrap, or the interpreter
itself), which holds the pid namespace; killing the namespace's process 1 ends all that is in it.
"""

import contextlib
import fcntl
import json
import marshal
import os
import select
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any

from nbkit.rewards import _backends, _cgroup, _view
from nbkit.rewards._layers import MINIMUM, layers_of
from nbkit.rewards._limits import Limits
from nbkit.rewards._sources import BOOT, code

START_S = 20.0
OVERHEAD_BYTES = 2**25  # of the supervisor, in a control group that also holds the program


class SandboxUnavailableError(RuntimeError):
    """This machine cannot protect itself from a program, and the caller did not accept that."""


class Sandbox:
    """A sandbox that waits for its one job.

    Args:
        allow_unprotected: start a bare interpreter where nothing better is to be had.
        backend: the way into new namespaces; left out, the best that works here.
        view: what the program sees beyond the bare interpreter.

    Raises:
        SandboxUnavailableError: below the minimum of protection.

    """

    def __init__(
        self,
        *,
        allow_unprotected: bool = False,
        backend: str | None = None,
        view: _view.View = _view.NOTHING_MORE,
    ) -> None:
        self._view = view
        self._open: list[int] = []
        self._pidfd = -1
        self._group: _cgroup.Group | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.process: subprocess.Popen[bytes] | None = None
        if backend is None:
            backend, problem = available()
            if not backend and not allow_unprotected:
                raise SandboxUnavailableError(
                    f"no sandbox on this machine: {problem}. On Debian install bubblewrap; to run "
                    "untrusted code without protection say allow_unprotected=True"
                )
        _living.add(self)
        try:
            self._start(backend)
        except BaseException:
            self.close()
            raise

    def _start(self, backend: str) -> None:
        orders_in, self.orders = self._pipe()
        self.reports, reports_out = self._pipe()
        stdin, self.stdin = self._pipe()
        self.stdout, stdout = self._pipe()
        self.stderr, stderr = self._pipe()
        theirs = [orders_in, reports_out, stdin, stdout, stderr]
        inner = [_view.interpreter(), *_view.BARE, "-c", BOOT, str(orders_in), str(reports_out)]
        passed, info = [orders_in, reports_out], -1
        environment = dict(_view.ENVIRONMENT)
        self.scratch = _view.SCRATCH
        if backend:
            filter_in, filter_out = self._pipe()
            info, info_out = self._pipe()
            os.write(filter_out, _backends.filter_program())
            self._shut(filter_out)
            inner += [str(_view.drop_to()), "pid1"]
            inner = _backends.command(
                backend, inner, seccomp_fd=filter_in, info_fd=info_out, view=self._view
            )
            passed += [filter_in, info_out]
            theirs += [filter_in, info_out]
        else:
            self._scratch = tempfile.TemporaryDirectory(prefix="nbkit-")
            self.scratch = self._scratch.name
            environment |= {"HOME": self.scratch, "TMPDIR": self.scratch}
            inner += ["0", "subreaper"]
        self.process = subprocess.Popen(
            inner,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=passed,
            env=environment,
            cwd="/" if backend else self.scratch,
            start_new_session=True,
        )
        for descriptor in theirs:
            self._shut(descriptor)
        self._send(code("_inside.py"), framed=True)
        if backend:
            self._find_process_one(info)
        facts = self._report(time.monotonic() + START_S)
        if facts is None:
            raise SandboxUnavailableError(f"a sandbox did not start: {self._last_words()}")
        self.layers = layers_of(facts, backend, in_group=self._group is not None)
        if backend and (missing := [name for name in MINIMUM if name not in self.layers]):
            raise SandboxUnavailableError(f"a sandbox without {', '.join(missing)}")
        for descriptor in (self.stdin, self.stdout, self.stderr, self.reports):
            os.set_blocking(descriptor, False)

    def _find_process_one(self, info: int) -> None:
        text = b""
        while b"}" not in text:
            data = os.read(info, 4096)
            if not data:
                raise SandboxUnavailableError(self._last_words())
            text += data
        self._shut(info)
        pid = json.loads(text)["child-pid"]
        self._pidfd = os.pidfd_open(pid)
        self._open.append(self._pidfd)
        self._group = _cgroup.take()
        if self._group is not None:
            try:
                self._group.add(pid)
            except OSError:  # this process may make groups, but not move others into them
                _cgroup.give(self._group)
                self._group = None

    def begin(self, role: str, source: Any, limits: Limits) -> None:
        """Start the one job: role ``program`` or ``solution`` with a text, or ``tests`` with code.

        The code of tests is what ``code`` has made of them; see ``_calls.test``.
        """
        job = {
            "role": role,
            "source": source,
            "scratch": self.scratch,
            "limits": limits.as_rlimits(),
            "memory_bytes": limits.memory_bytes,
            "calls": b"" if role == "program" else code("_calls.py"),
        }
        if "unprotected" in self.layers:
            # Here the limit would count every process of this user.
            job["limits"] = [row for row in limits.as_rlimits() if row[0] != "RLIMIT_NPROC"]
        if self._group is not None:
            self._group.limit(limits.memory_bytes + OVERHEAD_BYTES, limits.processes)
        self._send(marshal.dumps(job), framed=True)

    def takes_input(self) -> bool:
        """Whether the program's stdin is still open on our side."""
        return self.stdin in self._open

    def end_of_input(self) -> None:
        """Close the program's stdin."""
        self._shut(self.stdin)

    def outcome(self, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """Return what the supervisor says of the program that has ended, or None."""
        return self._report(time.monotonic() + timeout_s)

    def _send(self, data: bytes, framed: bool) -> None:
        view = memoryview(len(data).to_bytes(4, "big") + data if framed else data)
        with contextlib.suppress(BrokenPipeError):  # it has ended; the report will not come
            while view:
                view = view[os.write(self.orders, view) :]

    def _report(self, end: float) -> dict[str, Any] | None:
        """Read one framed report; None if it does not come whole in time."""
        data = b""
        poller = select.poll()
        poller.register(self.reports, select.POLLIN)
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
                return None
            more = os.read(self.reports, 65536)
            if not more:
                return None
            data += more
        report = marshal.loads(data[4:])
        assert isinstance(report, dict)
        return report

    def _last_words(self) -> str:
        """What the process wrote before it ended."""
        self.kill()
        os.set_blocking(self.stderr, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self.stderr, 2000).decode(errors="replace").strip() or "no message"
        return "no message"

    def kill(self) -> None:
        """End everything inside, and wait until it is gone."""
        if self.process is None or self.process.returncode is not None:
            return
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        else:
            self._shut(self.orders)  # the supervisor ends its children and itself
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """End the sandbox and give back every descriptor and the scratch folder."""
        self.kill()
        for descriptor in list(self._open):
            self._shut(descriptor)
        if self._group is not None:
            _cgroup.give(self._group)
            self._group = None
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        # Never 0, 1 or 2, should the caller have closed those: they are ours to redirect.
        moved = tuple(
            fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) if end < 3 else end for end in ends
        )
        for end, new in zip(ends, moved, strict=True):
            if end != new:
                os.close(end)
        self._open += moved
        return moved[0], moved[1]

    def _shut(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


@contextlib.contextmanager
def borrowed(sandbox: Sandbox | None, *, allow_unprotected: bool = False) -> Iterator[Sandbox]:
    """Use a sandbox that waits, or a new one; closed afterwards either way."""
    mine = sandbox or Sandbox(allow_unprotected=allow_unprotected)
    with mine:
        yield mine


_living: "weakref.WeakSet[Sandbox]" = weakref.WeakSet()


def _after_fork() -> None:
    """A forked process keeps no sandbox of its parent alive: it closes its copies of the pipes."""
    for sandbox in list(_living):
        for descriptor in sandbox._open:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        sandbox._open.clear()
        if sandbox.process is not None:
            sandbox.process.returncode = 0  # no child of this process
    _living.clear()
    available.cache_clear()


os.register_at_fork(after_in_child=_after_fork)


@cache
def available() -> tuple[str, str]:
    """Return the backend that works here, and why the better ones do not ("", why: none does)."""
    problems: list[str] = []
    for backend in _backends.BACKENDS:
        problem = _backends.problem(backend)
        if not problem:
            try:
                Sandbox(backend=backend).close()
            except (SandboxUnavailableError, OSError) as error:
                problem = str(error)
        if not problem:
            return backend, "; ".join(problems)
        problems.append(f"{backend}: {problem}")
    return "", "; ".join(problems)
