"""Messages between judge and learner."""

import json

import numpy as np
import pytest

from bookkit.builds.wire import DTYPES, Decoder, encode


def taken(data: bytes):
    decoder = Decoder()
    decoder.feed(data)
    return decoder.take()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_sent_arrives(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    kind, data, arrays = taken(encode("step", {"left": 3}, {"a": array, "empty": array[:0]}))
    assert (kind, data) == ("step", {"left": 3})
    assert arrays["a"].dtype == array.dtype and (arrays["a"] == array).all()
    assert arrays["empty"].shape == (0, 3)


def test_a_message_in_pieces_waits_for_its_end() -> None:
    message = encode("a", {}, {"x": np.ones(5)}) + encode("b")
    decoder, kinds = Decoder(), []
    for at in range(0, len(message), 3):
        decoder.feed(message[at : at + 3])
        while (found := decoder.take()) is not None:
            kinds.append(found[0])
    assert kinds == ["a", "b"]


@pytest.mark.parametrize(
    "header",
    [
        {"kind": "a", "data": {}, "arrays": [["x", "object", [1]]]},
        {"kind": "a", "data": {}, "arrays": [["x", "float32", [-1]]]},
        {"kind": "a", "data": {}, "arrays": [["x", "float32", [True]]]},
        {"kind": "a", "data": {}, "arrays": [["x", "float32", [2**40]]]},
        {"kind": 3, "data": {}, "arrays": []},
        {"kind": "a", "data": [], "arrays": []},
        {"kind": "a"},
        [],
    ],
)
def test_what_is_no_message_is_refused(header: object) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(ValueError, match="no message of a build"):
        taken(len(text).to_bytes(4, "big") + text + b"\0" * 64)


def test_objects_are_never_sent() -> None:
    with pytest.raises(TypeError, match="array of object"):
        encode("a", {}, {"x": np.array([{}])})
    with pytest.raises(ValueError, match="too long"):
        taken(b"\xff" * 8)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000])
def test_a_header_that_python_cannot_read_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no message of a build"):
        taken(len(text).to_bytes(4, "big") + text)


def test_what_waits_has_a_limit() -> None:
    decoder = Decoder()
    with pytest.raises(ValueError, match="more messages than"):
        for _ in range(100):
            decoder.feed(bytes(2**20))
    with pytest.raises(ValueError, match="in one message"):
        encode("a", {}, {"x": np.zeros(2**24)})
