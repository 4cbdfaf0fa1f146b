"""What a sandbox sends back is read as data, whatever it is."""

import pytest
import torch

from bookkit.exercises.limits import TimeLimitReached
from bookkit.exercises.observe import Observation
from bookkit.exercises.tree import same
from bookkit.grading.wire import BadReply, Foreign, decode, decode_seen, encode, encode_seen, loads

VALUES = [
    *(None, True, 3, -(10**40), 0.1, float("inf"), "text", [1, (2.5, None)], {"a": [True]}),
    *({1, 2}, torch.tensor(1.5, dtype=torch.float64), torch.zeros(0, 3)),
    *(torch.arange(6).reshape(2, 3), torch.tensor([True, False]), torch.ones(2, 2).t()),
    *(torch.tensor([float("nan"), 1.0]), torch.ones(2, dtype=torch.bfloat16)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
def test_plain_data_and_tensors_come_back_the_same(value: object):
    back = decode(loads(__import__("json").dumps(encode(value)).encode()))
    assert same(value, back)


def test_what_is_none_of_them_comes_back_as_its_type():
    assert decode(encode(object())) == Foreign("object")
    nested: list = []
    nested.append(nested)
    assert encode(nested)["list"]  # ends


@pytest.mark.parametrize(
    "reply",
    [
        [1],
        {"tensor": ["torch.float32", [3], "AAAA"]},
        {"tensor": ["torch.float32", [-1], ""]},
        {"tensor": ["os.system", [1], "AAAAAA=="]},
        {"tensor": ["torch.float32", [True], "AAAAAA=="]},
        {"int": "x"},
        {"eval": "1"},
        {"dict": [[{"list": []}, 1]]},
        {"a": 1, "b": 2},
    ],
)
def test_a_malformed_reply_is_refused(reply: object):
    with pytest.raises(BadReply):
        decode(reply)
    with pytest.raises(BadReply):
        decode_seen(reply)
    with pytest.raises(BadReply):
        loads(b"[" * 100_000)


def test_an_observation_comes_back_with_its_errors_and_gradients():
    seen = Observation(
        leaves=(torch.ones(2),),
        changed=("x",),
        gradients={"x": torch.ones(2), "y": None},
        error=TimeLimitReached(),
        printed="hello",
        returned_none=True,
    )
    back = decode_seen(encode_seen(seen))
    assert same(back.leaves, seen.leaves) and same(back.gradients, seen.gradients)
    assert isinstance(back.error, TimeLimitReached)
    assert (back.changed, back.printed, back.returned_none) == (("x",), "hello", True)
    seen.error = KeyError("k")
    back = decode_seen(encode_seen(seen))
    assert (type(back.error).__name__, str(back.error)) == ("KeyError", "'k'")
