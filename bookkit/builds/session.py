"""One learner's process: the judge calls its functions, answers its questions, and keeps count."""

import contextlib
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bookkit.builds import inside, limits
from bookkit.builds.wire import Arrays, Decoder, encode
from nbkit.rewards.sandbox import Sandbox

Answer = Callable[[str, dict[str, Any], Arrays], tuple[dict[str, Any], Arrays]]
Note = Callable[[dict[str, Any]], None]
# What a part uses of the package, which is not to be seen otherwise.
SHARED = {
    "writing": ("nbkit.text.protocols", "nbkit.text.policies"),
    "aligning": ("nbkit.text.protocols", "nbkit.text.policies"),
    "parallel": ("bookkit.builds.network",),
    "asynchronous": ("bookkit.builds.network",),
    "sampling": ("bookkit.builds.decoder",),
    "capstone": (
        "nbkit.text.protocols",
        "nbkit.text.policies",
        "bookkit.builds.inside.writing",
    ),
    "motion": ("bookkit.builds.inside.control",),
}
TEXT = 4000  # characters of an error that are shown
OUTPUT_BYTES = 20_000  # of what the learner prints; the rest is dropped
START = """
import sys, types
sys.path += PATHS
for name, source in SOURCES:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
sys.modules["bookkit.builds.inside.core"].main(NAME, LEARNERS, module.handlers)
"""


class Stopped(Exception):  # noqa: N818 - it says how the learner's process ended
    """The learner's process ended or was ended; the message is a sentence for the learner."""


@dataclass(frozen=True)
class Reply:
    """What a call came back with.

    Attributes:
        data: plain values.
        arrays: by name.

    """

    data: dict[str, Any]
    arrays: Arrays


class Session:
    """A process with the learner's file loaded.

    Args:
        name: of the file, as tracebacks show it.
        source: its text.
        part: the file of `bookkit.builds.inside` that knows this kind of build.
        budget: for the whole life of the process.

    Raises:
        Stopped: the file could not be loaded.
        SandboxUnavailableError: this machine has no sandbox, and `allow_unprotected` is False.

    """

    def __init__(
        self,
        name: str,
        source: str,
        part: str,
        budget: limits.Budget,
        *,
        allow_unprotected: bool = False,
    ) -> None:
        self.budget, self._decoder = budget, Decoder()
        self._another = partial(
            Session, name, source, part, budget, allow_unprotected=allow_unprotected
        )
        self._printed, self.dropped, self._mute = bytearray(), False, False
        self._box = Sandbox(allow_unprotected=allow_unprotected, view=limits.view())
        assert self._box.process is not None
        self.meter = limits.Meter(self._box.process.pid, time.monotonic)
        self._box.begin("program", _program(name, source, part), budget.limits())
        try:
            self._until("ready", _no_questions, _no_notes)
        except BaseException:
            self.close()
            raise

    @property
    def layers(self) -> tuple[str, ...]:
        """The protections in force, by name."""
        return self._box.layers

    @property
    def printed(self) -> str:
        """What the learner's file has printed, shortened."""
        self._take_printed(bool(select.select([self._box.stderr], [], [], 0.0)[0]))
        return self._printed.decode(errors="replace") + (" […]" if self.dropped else "")

    def another(self) -> "Session":
        """One more process with the same file."""
        return self._another()

    def call(
        self,
        function: str,
        data: dict[str, Any] | None = None,
        arrays: Arrays | None = None,
        *,
        answer: Answer | None = None,
        note: Note | None = None,
    ) -> Reply:
        """Call a function of the learner's side, and answer what it asks meanwhile.

        Args:
            function: one of the names that the build's part gives.
            data: plain arguments.
            arrays: arguments that are arrays.
            answer: maps a question to its answer; raises `Stopped` for one that is not allowed.
            note: takes what the learner logs.

        Raises:
            Stopped: an error in the learner's file, a limit, or an end without an answer.

        """
        self.meter.begin_to_wait()
        self._send(encode(function, data, arrays))
        return Reply(*self._until("return", answer or _no_questions, note or _no_notes))

    def _until(self, wanted: str, answer: Answer, note: Note) -> tuple[dict[str, Any], Arrays]:
        while True:
            kind, data, arrays = self._receive()
            if kind == wanted:
                return data, arrays
            if kind == "raise":
                text = str(data.get("text", "")).strip()
                head = str(data.get("head", ""))[:TEXT] or "your file raised an error"
                raise Stopped(f"{head}:\n{text[-TEXT:]}" if text else head)
            if kind == "note":
                note(data)
            else:
                began = time.monotonic()
                found, values = answer(kind[:40], data, arrays)
                self.meter.excuse(time.monotonic() - began)
                self._send(encode("answer", found, values))

    def _receive(self) -> tuple[str, dict[str, Any], Arrays]:
        while True:
            try:
                message = self._decoder.take()
            except ValueError as error:
                raise Stopped(f"your process sent something else than messages: {error}") from error
            if message is not None:
                return message
            self._pump()

    def _send(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            try:
                view = view[os.write(self._box.stdin, view[:65536]) :]
            except BlockingIOError:
                self._pump(writes=True)
            except BrokenPipeError:
                raise Stopped(self._ended()) from None

    def _pump(self, *, writes: bool = False) -> None:
        """Wait for something to happen; take in what the process sends and prints."""
        poller = select.poll()
        watched = [self._box.stdout, self._box.reports, *([] if self._mute else [self._box.stderr])]
        for descriptor in watched:
            poller.register(descriptor, select.POLLIN)
        if writes:
            poller.register(self._box.stdin, select.POLLOUT)
        ready = dict(poller.poll(500))
        if self._box.stdout in ready:
            self._take_sent()
        self._take_printed(self._box.stderr in ready)
        if self._box.reports in ready and not ready.get(self._box.stdout, 0) & select.POLLIN:
            raise Stopped(self._ended())
        if self.meter.due():
            self._look()

    def _take_sent(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._box.stdout, 1 << 20)
            if not data:
                raise Stopped(self._ended())
            try:
                self._decoder.feed(data)
            except ValueError as error:
                raise Stopped(f"your process sent something else than answers: {error}") from error

    def _take_printed(self, ready: bool) -> None:
        if not ready:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._box.stderr, 1 << 16)
            self._mute = not data  # closed; looking again would find that again at once
            room = OUTPUT_BYTES - len(self._printed)
            self._printed += data[:room]
            self.dropped = self.dropped or len(data) > room

    def _look(self) -> None:
        used = self.meter.seconds
        if used > self.budget.processor_seconds:
            raise Stopped(
                f"it has used {used:.0f} s of processor time; the budget of this build is "
                f"{self.budget.processor_seconds:.0f} s, whatever the number of processes"
            )
        if self.meter.hangs():
            raise Stopped(
                f"it hangs: it has computed for less than a second in the last "
                f"{limits.IDLE_SECONDS:.0f} s"
            )

    def _ended(self) -> str:
        outcome = self._box.outcome(2.0)
        if outcome is not None and outcome["stopped"]:
            return f"your process was ended: it went over its limit on {outcome['stopped']}"
        return (
            "your process ended before it had answered the judge: a file that calls `exit`, or "
            "writes into the judge's pipes, cannot pass"
        )

    def close(self) -> None:
        """End the process and all that it has started."""
        self._box.close()


def _program(name: str, source: str, part: str) -> str:
    """The text that the bare interpreter in the sandbox runs."""
    folder = Path(inside.__file__).parent
    files = {"bookkit.builds.wire": folder.parent / "wire.py"}
    files["bookkit.builds.inside.core"] = folder / "core.py"
    files |= {name: Path(import_module(name).__file__ or "") for name in SHARED.get(part, ())}
    files[f"bookkit.builds.inside.{part}"] = folder / f"{part}.py"
    sources = [(module, path.read_text("utf-8")) for module, path in files.items()]
    values = {"PATHS": limits.paths(), "SOURCES": sources, "NAME": name, "LEARNERS": source}
    return "".join(f"{key} = {value!r}\n" for key, value in values.items()) + START


def _no_questions(kind: str, _: dict[str, Any], __: Arrays) -> tuple[dict[str, Any], Arrays]:
    raise Stopped(f"your process asked for {kind!r} where nothing may be asked")


def _no_notes(_: dict[str, Any]) -> None:
    """Drop what is logged where nobody listens."""
