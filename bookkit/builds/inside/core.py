"""In the learner's process: read the learner's file, answer the judge's calls.

It is given the text of this file, of `bookkit.builds.wire`, and of the build's own part, with a
function `handlers`. Nothing here is trusted by the judge: it counts on its own side.
"""

import ctypes
import linecache
import os
import platform
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from bookkit.builds.wire import Arrays, Decoder, encode

Handler = Callable[[dict[str, Any], Arrays], tuple[dict[str, Any], Arrays]]
CALLS_AT_MOST = 2000  # of `log`, in one call
TEXT = 4000  # characters of an error that are sent
SIGCHLD, SIGACTION = 17, {"x86_64": 13, "aarch64": 134}


class Wrong(Exception):  # noqa: N818 - it is a sentence for the learner, shown without a traceback
    """What the learner's file did is not what its specification says."""


class Channel:
    """The two ends that lead to the judge."""

    def __init__(self) -> None:
        self.reader, self.writer = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)  # what the learner prints is shown, and is no message
        os.close(null)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self.decoder = Decoder()

    def send(
        self, kind: str, data: dict[str, Any] | None = None, arrays: Arrays | None = None
    ) -> None:
        """Send a message whole."""
        view = memoryview(encode(kind, data, arrays))
        while view:
            view = view[os.write(self.writer, view) :]

    def receive(self) -> tuple[str, dict[str, Any], Arrays]:
        """Wait for the next message: kind, data, arrays."""
        while (message := self.decoder.take()) is None:
            data = os.read(self.reader, 1 << 20)
            if not data:
                os._exit(0)  # the judge has left
            self.decoder.feed(data)
        return message

    def ask(
        self, kind: str, data: dict[str, Any] | None = None, arrays: Arrays | None = None
    ) -> tuple[dict[str, Any], Arrays]:
        """Send a question and wait for its answer."""
        self.send(kind, data, arrays)
        _, answer, values = self.receive()
        return answer, values


class Log:
    """`log(kl=0.01, …)`: figures of an update that the judge shows beside the learner's curve."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.left = channel, CALLS_AT_MOST

    def __call__(self, **figures: float) -> None:
        """Log an update."""
        if self.left > 0:
            self.left -= 1
            self.channel.send(
                "note", {name: _number(name, value) for name, value in figures.items()}
            )


def _number(name: str, value: Any) -> float:
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Wrong(
            f"`log` wants one number a name; {name} is {described(value)}: log its mean"
        ) from None


def described(value: Any) -> str:
    """A value in a few words: its type, and the shape of a tensor."""
    kind = type(value).__name__
    if value is None:
        return "None"
    return f"a {kind} of shape {tuple(value.shape)}" if hasattr(value, "shape") else f"a {kind}"


def load(name: str, source: str) -> types.ModuleType:
    """Run the learner's file as a module; its lines are shown in tracebacks."""
    module = types.ModuleType("build")
    module.__file__ = name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    sys.modules["build"] = module
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    return module


def lines_of(error: BaseException, name: str) -> str:
    """The lines of the learner's file that led to an error, each with its place."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
    return "".join(traceback.format_list(frames))


def told(error: BaseException, name: str) -> str:
    """The error with the lines of the learner's file that led to it; neither part is endless."""
    found = "".join(traceback.format_exception_only(error))
    cut = found if len(found) <= TEXT // 2 else f"{found[: TEXT // 2]} [...]"
    return lines_of(error, name)[-TEXT // 2 :] + cut


def entry(module: types.ModuleType, name: str) -> Callable[..., Any]:
    """The function of the learner's file that the judge calls.

    Raises:
        Wrong: there is none.

    """
    found = getattr(module, name, None)
    if not callable(found):
        raise Wrong(
            f"your file has no function `{name}`: write one, with the arguments that the "
            "specification gives"
        )
    return found


def changed(module: types.ModuleType, data: dict[str, Any], fixed: tuple[str, ...] = ()) -> Any:
    """The settings of a call, with what the learner's `SETTINGS` changes for the task.

    Raises:
        Wrong: `SETTINGS` holds no dict for the task, or changes what it may not.

    """
    every = getattr(module, "SETTINGS", {})
    own = every.get(data["task"], {}) if isinstance(every, dict) else None
    if not isinstance(own, dict):
        raise Wrong(
            "`SETTINGS` wants a dict for each task, as in "
            f"SETTINGS = {{{data['task']!r}: {{'learning_rate': 0.001}}}}"
        )
    for name in fixed:
        if name in own:
            raise Wrong(f"`SETTINGS` may change all but `{name}`, which is the budget: remove it")
    return types.SimpleNamespace(**{**data["settings"], **own})


def weights_of(trained: Any, given: Any, function: str = "train") -> Arrays:
    """The weights of the model that the learner's function returned, on their way to the judge.

    Raises:
        Wrong: it is no model, or another one than was given.

    """
    if not hasattr(trained, "state_dict"):
        raise Wrong(
            f"`{function}` returned {described(trained)}: return the model that it was given, "
            "trained"
        )
    found = {name: x.detach() for name, x in trained.state_dict().items()}
    wanted = {name: x.shape for name, x in given.state_dict().items()}
    if {name: x.shape for name, x in found.items()} != wanted:
        raise Wrong(
            f"`{function}` returned a {type(trained).__name__} with other weights: return the "
            "model that it was given, trained"
        )
    return {name: x.float().numpy() for name, x in found.items()}


def count_children() -> None:
    """Refuse to change what becomes of children that end: ignored, their time would be lost."""
    number = SIGACTION.get(platform.machine())
    if number is None:
        return
    # Load, compare, return: words of classic BPF over (number, …, arguments) of a system call.
    steps = (
        (0x20, 0, 0, 0),
        (0x15, 0, 6, number),
        (0x20, 0, 0, 16),
        (0x15, 0, 4, SIGCHLD),
        (0x20, 0, 0, 24),
        (0x15, 0, 3, 0),
        (0x20, 0, 0, 28),
        (0x15, 0, 1, 0),
        (0x06, 0, 0, 0x7FFF0000),
        (0x06, 0, 0, 0x00050001),
    )
    words = b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for code, yes, no, value in steps
    )
    held = ctypes.create_string_buffer(words)
    program = len(steps).to_bytes(8, "little") + ctypes.addressof(held).to_bytes(8, "little")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0)


def failure(error: BaseException, name: str) -> dict[str, str]:
    """What the judge is told of an error: a sentence where the mistake is known, and its lines."""
    lines = lines_of(error, name)[-TEXT:]
    if isinstance(error, Wrong):
        return {"head": str(error)[:TEXT], "text": lines}
    if isinstance(error, SyntaxError) and error.filename == name:
        head = f"your file is no Python yet: line {error.lineno} cannot be read, {error.msg}"
    elif isinstance(error, SystemExit):
        head = "your file ends its own process: remove `exit`, and return from your function"
    elif (hidden := _hidden(error)) is not None:
        head = f"your file uses `{hidden}`, which is not here: a build is written with torch alone"
    elif isinstance(error, TypeError) and not lines:
        head = f"your function cannot be called as the specification says ({error}): copy its line"
    else:
        head = ""
    return {"head": head[:TEXT], "text": told(error, name)}


def _hidden(error: BaseException) -> str | None:
    """The package that was asked for and that this process cannot see; an empty folder is left."""
    if isinstance(error, ModuleNotFoundError):
        return error.name
    module = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
    if isinstance(module, types.ModuleType) and hasattr(module, "__path__"):
        return None if getattr(module, "__file__", None) else module.__name__
    return None


def main(name: str, source: str, handlers: Callable[..., dict[str, Handler]]) -> None:
    """Serve the judge until it leaves.

    Args:
        name: of the learner's file, as tracebacks show it.
        source: its text.
        handlers: of the build: what the judge may call, by name.

    """
    channel = Channel()
    import torch

    torch.set_num_threads(1)
    count_children()
    try:
        functions = handlers(load(name, source), channel)
    except BaseException as error:
        channel.send("raise", failure(error, name))
        return
    channel.send("ready")
    while True:
        called, data, arrays = channel.receive()
        try:
            found, values = functions[called](data, arrays)
        except BaseException as error:
            channel.send("raise", failure(error, name))
        else:
            channel.send("return", found, values)
