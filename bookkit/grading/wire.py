"""What goes between the judge and a sandbox: frames, and observations as plain JSON.

Orders go in as pickles, which the judge makes. What comes back is made by code that nobody trusts:
JSON with numbers, texts and tensors as bytes, and nothing that runs when it is read.
"""

import base64
import json
import math
import os
import traceback
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.limits import TimeLimitReached
from bookkit.exercises.observe import Observation

LARGEST_BYTES = 2**26
DEEPEST = 40
LONGEST_TEXT = 2000
DTYPES = {
    str(dtype): dtype
    for dtype in (
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
        *(torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
        torch.bool,
    )
}


class BadReply(ValueError):  # noqa: N818 (says what it is)
    """What came back is no observation: the code in the sandbox wrote it, or broke its writer."""


@dataclass(frozen=True)
class Foreign:
    """A result of a type that is none of the plain ones; equal to nothing that is expected."""

    kind: str


def encode(value: Any, depth: int = 0) -> Any:
    """A result as JSON knows it; of what is neither plain data nor a tensor, its type's name."""
    if depth > DEEPEST:
        return {"foreign": "nested too deep"}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": str(value)} if value.bit_length() < 4096 else {"foreign": "int"}
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, Tensor) and str(value.dtype) in DTYPES and value.layout == torch.strided:
        plain = value.detach().to("cpu").contiguous().reshape(-1).clone()
        data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        text = base64.b64encode(data).decode("ascii")
        return {"tensor": [str(value.dtype), list(value.shape), text]}
    kinds = {list: "list", tuple: "tuple", set: "set", frozenset: "set"}
    for kind, name in kinds.items():
        if isinstance(value, kind):
            return {name: [encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    return {"foreign": type(value).__name__}


def decode(value: Any, depth: int = 0) -> Any:
    """The result of an `encode`.

    Raises:
        BadReply: no `encode` writes this.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if depth > DEEPEST + 1 or not isinstance(value, dict) or len(value) != 1:
        raise BadReply("a reply that is not plain data")
    ((kind, content),) = value.items()
    try:
        if kind == "int":
            return int(content)
        if kind == "float":
            return float.fromhex(content)
        if kind == "tensor":
            return _tensor(*content)
        if kind == "foreign":
            return Foreign(str(content)[:LONGEST_TEXT])
        if kind == "dict":
            return {decode(k, depth + 1): decode(v, depth + 1) for k, v in content}
        items = [decode(item, depth + 1) for item in content]
        return {"list": list, "tuple": tuple, "set": set}[kind](items)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadReply(f"a reply that is not plain data: {type(error).__name__}") from error


def _tensor(dtype: str, shape: list[int], text: str) -> Tensor:
    data = bytearray(base64.b64decode(text, validate=True))
    if not all(type(n) is int and n >= 0 for n in shape):
        raise BadReply("a tensor with a shape that is none")
    kind = DTYPES[dtype]
    if math.prod(shape) * kind.itemsize != len(data):
        raise BadReply("a tensor whose bytes do not fill its shape")
    if not data:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=torch.uint8).view(kind).reshape(shape).clone()


def encode_seen(seen: Observation) -> dict[str, Any]:
    """An observation as JSON knows it."""
    error = seen.error
    frames = list(seen.error_lines or [])[-20:]
    return {
        "leaves": None if seen.leaves is None else [encode(leaf) for leaf in seen.leaves],
        "changed": list(seen.changed),
        "gradients": {name: encode(value) for name, value in seen.gradients.items()},
        "error": None if error is None else [_kind(error), str(error)[:LONGEST_TEXT]],
        "error_in_gradient_run": seen.error_in_gradient_run,
        "frames": [[f.filename, f.lineno or 0, f.name, f.line or ""] for f in frames],
        "printed": seen.printed[:LONGEST_TEXT],
        "returned_none": seen.returned_none,
    }


def _kind(error: BaseException) -> str:
    for known in (NotImplementedError, TimeLimitReached):
        if isinstance(error, known):
            return known.__name__
    return type(error).__name__


def decode_seen(reply: Any) -> Observation:
    """The observation of an `encode_seen`.

    Raises:
        BadReply: no `encode_seen` writes this.
    """
    try:
        leaves, error = reply["leaves"], reply["error"]
        frames = [
            traceback.FrameSummary(str(file), int(line), str(name), line=str(text))
            for file, line, name, text in reply["frames"]
        ]
        gradients = {str(name): decode(value) for name, value in reply["gradients"].items()}
        if not all(value is None or isinstance(value, Tensor) for value in gradients.values()):
            raise BadReply("a gradient that is no tensor")
        return Observation(
            leaves=None if leaves is None else tuple(decode(leaf) for leaf in leaves),
            changed=tuple(str(name) for name in reply["changed"]),
            gradients=gradients,
            error=None if error is None else _error(str(error[0]), str(error[1])),
            error_in_gradient_run=bool(reply["error_in_gradient_run"]),
            error_lines=traceback.StackSummary.from_list(frames),
            printed=str(reply["printed"])[:LONGEST_TEXT],
            returned_none=bool(reply["returned_none"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadReply(f"a reply that is no observation: {error}") from error


def _error(kind: str, text: str) -> BaseException:
    known: dict[str, type[BaseException]] = {
        "NotImplementedError": NotImplementedError,
        "TimeLimitReached": TimeLimitReached,
    }
    name = kind if kind.isidentifier() else "Exception"
    return known.get(kind, type(name, (Exception,), {}))(text)


def send(descriptor: int, data: bytes) -> None:
    """Write one frame: its length in four bytes, then the bytes."""
    view = memoryview(len(data).to_bytes(4, "big") + data)
    while view:
        view = view[os.write(descriptor, view) :]


def loads(data: bytes) -> Any:
    """JSON of a frame.

    Raises:
        BadReply: it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadReply("a reply that is not JSON") from error
