"""Messages between the judge and a learner's process: a line of JSON and plain arrays of numbers.

Both ends use this file; the learner's process receives its text. Nothing that arrives is ever
unpickled or run: what a message can hold is JSON and arrays of the types named in `DTYPES`.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = ("float32", "float64", "int64", "bool")
LARGEST_HEADER = 2**20
LARGEST_BODY = 2**26
LARGEST = 4 + LARGEST_HEADER + LARGEST_BODY
Arrays = dict[str, NDArray[Any]]
Header = tuple[str, dict[str, Any], list[tuple[str, str, list[int]]]]


def encode(kind: str, data: dict[str, Any] | None = None, arrays: Arrays | None = None) -> bytes:
    """Return a message as bytes: length of the header, header, bytes of the arrays.

    Args:
        kind: what the message is.
        data: what JSON can hold.
        arrays: by name; of a type in `DTYPES`.

    Raises:
        TypeError: an array of another type, or data that JSON cannot hold.
        ValueError: more than a message may hold.

    """
    parts, described = [], []
    for name, array in (arrays or {}).items():
        array = np.ascontiguousarray(array)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name} is an array of {array.dtype}; use one of {', '.join(DTYPES)}")
        described.append([name, array.dtype.name, list(array.shape)])
        parts.append(array.tobytes())
    header = json.dumps({"kind": kind, "data": data or {}, "arrays": described}).encode()
    size = sum(map(len, parts))
    if size > LARGEST_BODY or len(header) > LARGEST_HEADER:
        raise ValueError(
            f"what goes to the judge in one message has {size + len(header):,} bytes, more than "
            f"{LARGEST_BODY:,}: send actions, tokens or the small model that was given, no more"
        )
    return b"".join([len(header).to_bytes(4, "big"), header, *parts])


class Decoder:
    """Puts messages together from the bytes that arrive."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._header: Header | None = None  # of the message whose arrays are still on their way

    def feed(self, data: bytes) -> None:
        """Take what has arrived.

        Raises:
            ValueError: more waits here than a message can hold.

        """
        if len(self.buffer) + len(data) > LARGEST + 2**20:
            raise ValueError("more messages than answers were waited for")
        self.buffer += data

    def take(self) -> tuple[str, dict[str, Any], Arrays] | None:
        """Return kind, data and arrays of the next whole message; None if it has not arrived.

        Raises:
            ValueError: the bytes are no message.

        """
        if len(self.buffer) < 4:
            return None
        size = int.from_bytes(self.buffer[:4], "big")
        if size > LARGEST_HEADER:
            raise ValueError("no message of a build: its header is too long")
        if len(self.buffer) < 4 + size:
            return None
        if self._header is None:
            self._header = _header(bytes(self.buffer[4 : 4 + size]))
        kind, data, described = self._header
        lengths = [math.prod(shape) * np.dtype(dtype).itemsize for _, dtype, shape in described]
        end = 4 + size + sum(lengths)
        if end > LARGEST_BODY:
            raise ValueError("no message of a build: its arrays are too large")
        if len(self.buffer) < end:
            return None
        arrays, at = {}, 4 + size
        for (name, dtype, shape), length in zip(described, lengths, strict=True):
            flat = np.frombuffer(bytes(self.buffer[at : at + length]), dtype=dtype)
            arrays[name], at = flat.reshape(shape).copy(), at + length
        del self.buffer[:end]
        self._header = None
        return kind, data, arrays


def _header(text: bytes) -> Header:
    try:
        header = json.loads(text)
        kind, data, described = header["kind"], header["data"], header["arrays"]
        fits = isinstance(kind, str) and isinstance(data, dict)
        for name, dtype, shape in described:
            fits = fits and isinstance(name, str) and dtype in DTYPES
            fits = fits and len(shape) <= 8
            fits = fits and all(type(n) is int and 0 <= n <= LARGEST_BODY for n in shape)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("no message of a build: its header cannot be read") from error
    if not fits:
        raise ValueError("no message of a build: its header names what no message holds")
    return kind, data, described
