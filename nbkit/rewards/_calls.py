"""Inside a sandbox: a solution that answers calls, or the tests that make them.

Solution and tests live in two sandboxes. Between them goes JSON, a line a message, relayed by the
process outside; what arrives is made of the plain built-in types alone, whatever the solution does
to its own interpreter. Imports nothing of nbkit.
"""

from __future__ import annotations

import builtins
import os

TYPE_CHECKING = False  # importing typing takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERDICT = b"!"  # marks the line of the verdict; every other line of the tests is a call


def encode(value: Any, depth: int = 0) -> Any:
    """A JSON value for plain data; TypeError for anything else."""
    if depth > 100:
        raise TypeError("nested more than 100 deep")
    if value is None or value is True or value is False or type(value) is str:
        return value
    if isinstance(value, int):
        value = int(value)
        return value if -(2**53) < value < 2**53 else {"int": hex(value)}
    if isinstance(value, float):
        return {"float": float.hex(float(value))}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        return {"complex": [float.hex(value.real), float.hex(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        return {type(value).__name__ if type(value) is bytearray else "bytes": bytes(value).hex()}
    if isinstance(value, list):
        return [encode(item, depth + 1) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, depth + 1) for item in value]}
    if isinstance(value, (set, frozenset)):
        kind = "set" if isinstance(value, set) else "frozenset"
        return {kind: [encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    raise TypeError("not plain data: " + type(value).__name__)


def decode(value: Any) -> Any:
    """The plain data of a JSON value; ValueError for what no ``encode`` writes."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError("malformed message")
    [(kind, content)] = value.items()
    if kind == "int":
        return int(content, 16)
    if kind == "float":
        return float.fromhex(content)
    if kind == "complex":
        return complex(float.fromhex(content[0]), float.fromhex(content[1]))
    if kind in ("bytes", "bytearray"):
        return bytes.fromhex(content) if kind == "bytes" else bytearray.fromhex(content)
    if kind in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(decode, content))
    if kind == "dict":
        return {decode(k): decode(v) for k, v in content}
    if kind == "range":
        return range(*content)
    raise ValueError("malformed message")


def _codec() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """Return JSON's dumps and loads: the C parts alone, since the module loads half the library."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner
    except ImportError:
        import json

        return json.dumps, json.loads

    def refuse(value: object) -> None:
        raise TypeError("not plain data: " + type(value).__name__)

    class Settings:
        strict, object_hook, object_pairs_hook = True, None, None
        parse_float, parse_int, parse_constant = float, int, float
        memo: dict[str, str] = {}  # noqa: RUF012  (the scanner asks for it by this name)

    encoder = make_encoder({}, refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
    scanner = make_scanner(Settings())  # type: ignore[arg-type]  # any object with these names

    def loads(text: str) -> Any:
        try:
            value, end = scanner(text, 0)
        except StopIteration:
            raise ValueError("malformed message") from None
        if text[end:].strip():
            raise ValueError("malformed message")
        return value

    return lambda value: "".join(encoder(value, 0)), loads


dumps, loads = _codec()


class Channel:
    """Lines of JSON over two descriptors."""

    def __init__(self, descriptors: tuple[int, int]) -> None:
        self.reader = os.fdopen(descriptors[0], "rb")
        self.writer = descriptors[1]

    def send(self, message: object, mark: bytes = b"") -> None:
        data = memoryview(mark + dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self.writer, data) :]

    def receive(self) -> Any:
        """The next message, or None at the end."""
        line = self.reader.readline()
        return loads(line.decode("ascii")) if line.endswith(b"\n") else None


def serve(source: str, descriptors: tuple[int, int]) -> int:
    """Run a solution, announce its names, and answer calls until the channel ends."""
    channel = Channel(descriptors)
    names: dict[str, Any] = {"__name__": "solution", "__builtins__": builtins, "__doc__": None}
    exec(compile(source, "<solution>", "exec", dont_inherit=True), names)
    functions = {name: value for name, value in names.items() if callable(value)}
    if isinstance(names.get("Solution"), type):  # a class of methods: each is a function
        instance = names["Solution"]()
        for name in dir(instance):
            if not name.startswith("_") and callable(getattr(instance, name)):
                functions.setdefault(name, getattr(instance, name))
    data = {}
    for name, value in names.items():
        if name not in functions and not name.startswith("__"):
            try:
                data[name] = encode(value)
            except TypeError:
                continue  # a module, say
    channel.send({"functions": list(functions), "data": data})
    while (call := channel.receive()) is not None:
        channel.send(_answer(functions, call))
    return 0


def _answer(functions: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    try:
        args = [decode(value) for value in call["args"]]
        kwargs = {name: decode(value) for name, value in call["kwargs"].items()}
        value = encode(functions[call["function"]](*args, **kwargs))
        if value is not None:
            return {"value": value}
        # A function that returns nothing works on its arguments: they go back.
        changed = {name: encode(item) for name, item in kwargs.items()}
        return {"value": None, "args": [encode(item) for item in args], "kwargs": changed}
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)[:1000]}


class NotTestable(BaseException):
    """A test hands over something that is not plain data: a fault of the test."""


def test(source: tuple[Any, list[str]], descriptors: tuple[int, int]) -> int:
    """Run the tests against the solution at the other end; send the verdict.

    ``source`` is (code, used): the compiled tests, whose assert statements report by number, and
    the names that they use. A site has passed if it was reached and never failed.
    """
    code, used = source
    channel = Channel(descriptors)
    asked: list[str] = []  # names of the solution that had a say
    passed: set[int] = set()
    failed: set[int] = set()

    def verdict(problem: str, finished: bool = False) -> None:
        message = {
            "reached": len(passed | failed),
            "passed": len(passed - failed),
            "finished": finished,
            "problem": problem,
            "asked": len(asked),
        }
        channel.send(message, VERDICT)

    def gone(when: str) -> None:
        # Not an exception: tests could catch it, and a solution that leaves would pass them.
        verdict("the solution ended " + when)
        os._exit(0)

    names = {
        "__name__": "tests",
        "__builtins__": builtins,
        "__nbkit_passed__": passed.add,
        "__nbkit_failed__": failed.add,
    }
    try:
        names.update(_solution_names(channel, used, gone, asked))
        exec(code, names)
    except NotTestable as error:
        channel.send({"not_testable": str(error)}, VERDICT)
    except SystemExit:
        verdict("the tests ended by SystemExit")
    except Exception as error:
        verdict(type(error).__name__ + ": " + str(error)[:500])
    else:
        verdict("", finished=True)
    return 0


def _change(old: Any, new: Any) -> None:
    """Make the tests' own object what the solution made of its copy; the same objects inside."""
    if type(old) is not type(new):
        return
    if isinstance(old, (list, dict)):
        keys = range(min(len(old), len(new))) if isinstance(old, list) else list(old)
        for key in keys:
            if isinstance(old, list) or key in new:
                _change(old[key], new[key])
                if old[key] == new[key]:
                    new[key] = old[key]
    elif isinstance(old, tuple):
        for ours, theirs in zip(old, new):  # noqa: B905  (its members may have changed)
            _change(ours, theirs)
    if isinstance(old, (list, bytearray)):
        old[:] = new
    elif isinstance(old, (dict, set)):
        old.clear()
        old.update(new)


def _solution_names(
    channel: Channel, used: list[str], gone: Callable[[str], None], asked: list[str]
) -> dict[str, Any]:
    """The names of the solution that the tests use: functions as calls, data as it is."""
    announced = channel.receive()
    if announced is None:
        gone("before it was defined")
    found = {}
    for name in announced["functions"]:
        if name in used:
            found[name] = _call(channel, name, gone, asked)
    for name, value in announced["data"].items():
        if name in used:
            found[name] = decode(value)
            asked.append(name)
    return found


def _call(
    channel: Channel, name: str, gone: Callable[[str], None], asked: list[str]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        try:
            message = {
                "function": name,
                "args": [encode(value) for value in args],
                "kwargs": {key: encode(value) for key, value in kwargs.items()},
            }
        except TypeError as error:
            raise NotTestable("argument of " + name + ": " + str(error)) from None
        channel.send(message)
        reply = channel.receive()
        if reply is None:
            gone("during a call of " + name)
        if "raised" in reply:
            kind = getattr(builtins, str(reply["raised"]), None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = RuntimeError
            if issubclass(kind, (StopIteration, StopAsyncIteration)):
                kind = RuntimeError  # would end a map() of the tests early, and with success
            try:
                fault = kind(str(reply["message"]))
            except TypeError:  # UnicodeDecodeError and the like want more arguments
                fault = RuntimeError(str(reply["message"]))
            raise fault
        value = decode(reply["value"])
        if value is None:
            for old, new in zip(args, reply["args"]):  # noqa: B905  (both are the call's own)
                _change(old, decode(new))
            for key, new in reply["kwargs"].items():
                _change(kwargs.get(key), decode(new))
        return value

    call.__name__ = name
    return call
