"""One sandbox for one submission: started, asked, watched, ended.

Bubblewrap gives it a view of its own: the interpreter, the installed packages and `nbkit`, all
read-only; no home, no network, no checks, no solutions, no other process. What it may use is
counted over all its processes together, in processor time and memory; the clock ends only what
hangs.
"""

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbkit
from bookkit.grading.wire import LARGEST_BYTES, BadReply, loads, send
from nbkit.errors import UserError
from nbkit.rewards import _bubblewrap, _seccomp, _view

LOOK_S = 0.1
GONE_S = 10.0
WORK_S = 0.05  # of processor time; less than this is nothing
START_S = 60.0  # of processor time, to import torch
ROOT = Path(nbkit.__file__).resolve().parents[1]
SHOWN = ("nbkit", "bookkit/__init__.py", "bookkit/exercises", "bookkit/grading")


@dataclass(frozen=True)
class Allowance:
    """What one box may use.

    Attributes:
        processor_s: seconds of processor time for one order, of all processes together.
        memory_mb: MiB that are resident, of all processes together, and of data in each one.
        idle_s: seconds of the clock in which it may compute nothing.
    """

    processor_s: float = 30.0
    memory_mb: int = 4096
    idle_s: float = 30.0


class Ended(Exception):  # noqa: N818 (says what happened)
    """A box was ended, or ended itself; the message is the reason, in words for a table."""


class Box:
    """A sandbox that runs cells and calls functions.

    Args:
        allowance: what it may use.

    Raises:
        UserError: this machine has no bubblewrap, or cannot filter system calls.
    """

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.seconds = 0.0
        self._buffer, self._reported, self._words = b"", b"", ""
        self._resident = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the box)
        self._open: list[int] = []
        self._start()

    def _start(self) -> None:
        try:
            program = _seccomp.program()
        except _seccomp.MissingError as error:
            raise UserError(f"grading needs a filter of system calls: {error}") from error
        if _bubblewrap.found() is None:
            raise UserError(
                "grading needs a sandbox: install bubblewrap (`apt install bubblewrap`)"
            )
        orders_in, self._orders = self._pipe()
        self._replies, replies_out = self._pipe()
        self._reports, reports_out = self._pipe()
        filter_in, filter_out = self._pipe()
        info_in, info_out = self._pipe()
        os.write(filter_out, program)
        uid = str(_view.drop_to())
        inner = [_view.interpreter(), "-P", "-s", "-B", "-m", "bookkit.grading.inside"]
        inner += [str(replies_out), str(reports_out), uid, json.dumps(self._limits())]
        command = _with_packages(_bubblewrap.command(inner, seccomp_fd=filter_in, info_fd=info_out))
        self.process = subprocess.Popen(
            command,
            stdin=orders_in,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[replies_out, reports_out, filter_in, info_out],
            start_new_session=True,
        )
        for descriptor in (orders_in, replies_out, reports_out, filter_in, filter_out, info_out):
            self._shut(descriptor)
        os.set_blocking(self._reports, False)
        self._process_one = self._find_process_one(info_in)
        try:
            self._reply(START_S)
        except Ended as error:
            raise UserError(f"a sandbox did not start: {self._words or error}") from error

    def _find_process_one(self, info: int) -> int | None:
        """A handle on the sandbox's process 1, whose end ends all others; None if none started."""
        text = b""
        while b"}" not in text and (data := os.read(info, 4096)):
            text += data
        self._shut(info)
        if b"}" not in text:
            return None
        handle = os.pidfd_open(json.loads(text)["child-pid"])
        self._open.append(handle)
        return handle

    def _limits(self) -> dict[str, int]:
        memory = self.allowance.memory_mb * 2**20
        return {
            "RLIMIT_DATA": memory,
            "RLIMIT_FSIZE": _view.SCRATCH_BYTES,
            "RLIMIT_NOFILE": 256,
            "RLIMIT_NPROC": 64,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
        }

    def ask(self, order: dict[str, Any], processor_s: float | None = None) -> Any:
        """Give an order and return the reply, decoded from JSON and not believed.

        Args:
            order: for `inside`.
            processor_s: at most so many seconds of processor time; default as allowed.

        Raises:
            Ended: the box is no more.
            BadReply: what came is no JSON, or too long.
        """
        with contextlib.suppress(BrokenPipeError):  # its end is told when the reply does not come
            send(self._orders, pickle.dumps(order))
        return self._reply(self.allowance.processor_s if processor_s is None else processor_s)

    def _reply(self, processor_s: float) -> Any:
        self._count()
        began = worked = self.seconds
        since = time.monotonic()
        try:
            while True:
                frame = self._frame()
                self._count()
                if frame is not None:
                    return loads(frame)
                if self.seconds - worked >= WORK_S:
                    worked, since = self.seconds, time.monotonic()
                if self.seconds - began > processor_s:
                    raise Ended(f"it used more than {processor_s:.0f} s of processor time")
                if time.monotonic() - since > self.allowance.idle_s:
                    raise Ended(f"it computed nothing for {self.allowance.idle_s:.0f} s")
                if self._resident > self.allowance.memory_mb * 2**20:
                    raise Ended(f"it used more than {self.allowance.memory_mb} MiB of memory")
        except (Ended, BadReply):
            self.close()
            raise

    def _count(self) -> None:
        """Take the latest whole report of process 1."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reports, 2**16):
                self._reported += data
        *lines, self._reported = self._reported.split(b"\n")
        if lines:
            report = json.loads(lines[-1])
            self.seconds, self._resident = float(report["seconds"]), int(report["bytes"])

    def _frame(self) -> bytes | None:
        """The next whole frame, or None if it has not come yet."""
        if select.select([self._replies], [], [], LOOK_S)[0]:
            data = os.read(self._replies, 2**16)
            if not data:
                raise Ended("it ended its own process")
            self._buffer += data
        if len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "big")
        if length > LARGEST_BYTES:
            raise BadReply("a reply of more than 64 MiB")
        if len(self._buffer) < 4 + length:
            return None
        frame, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
        return frame

    def close(self) -> None:
        """End everything inside, and give back the descriptors."""
        if self._process_one in self._open and self._process_one is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process_one, signal.SIGKILL)
            select.select([self._process_one], [], [], GONE_S)  # readable once it is gone
        self.process.kill()
        self.process.wait()
        if not self._errors.closed:
            self._errors.seek(0)
            self._words = self._errors.read().decode(errors="replace").strip()[-500:]
        for descriptor in list(self._open):
            self._shut(descriptor)
        self._errors.close()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        self._open += ends
        return ends

    def _shut(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


def _with_packages(command: list[str]) -> list[str]:
    """The command of a bare sandbox, with the installed packages and `nbkit` to be seen in it."""
    packages = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    folders = sorted({str(Path(path).resolve()) for path in packages})
    shown = [*folders, *(str(ROOT / name) for name in SHOWN)]
    parents = {str(parent) for path in shown for parent in Path(path).parents if str(parent) != "/"}
    options: list[str] = []
    for folder in sorted(parents):
        options += ["--perms", "0755", "--dir", folder]
    for path in shown:
        options += ["--ro-bind", path, path]
    options += ["--setenv", "PYTHONPATH", os.pathsep.join([str(ROOT), *folders])]
    options += ["--setenv", "HF_HUB_OFFLINE", "1", "--setenv", "MPLBACKEND", "agg"]
    place = command.index("--chdir")
    return [*command[:place], *options, *command[place:]]
