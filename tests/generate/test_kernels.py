"""The Triton kernels against plain operations: on a GPU, or in Triton's interpreter on a CPU.

Triton is no dependency of the book. Where it is not installed these tests are skipped, and
`benchmarks/generate.py` runs the same comparison on the GPU before it measures.
"""

import importlib.util
import os

import pytest
import torch

pytestmark = [
    pytest.mark.chapter(31),
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed"
    ),
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before the imports

from nbkit.generate import EngineOptions, generate  # noqa: E402
from nbkit.generate.attention import decode_attention, length_mask  # noqa: E402
from nbkit.generate.model import rms_norm, rotate  # noqa: E402
from nbkit.generate.sampling import draw, filter_threshold, gumbel_noise  # noqa: E402
from tests.generate.models import FAMILIES, make, some_prompts  # noqa: E402


@pytest.mark.parametrize("splits", [1, 2, 8])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "length"), [(6, 2, 16, 100), (14, 2, 64, 70), (4, 4, 32, 33)]
)
def test_attention(heads, kv_heads, width, length, splits):
    from nbkit.generate.kernels import split_attention

    torch.manual_seed(0)
    query = torch.randn(4, heads, width, device=DEVICE)
    keys, values = torch.randn(2, 5, kv_heads, length, width, device=DEVICE)
    positions = torch.tensor([0, length - 1, 15, 16], device=DEVICE)
    keys[0, :, 1:], values[0, :, 1:] = torch.nan, torch.nan  # what lies beyond is never read
    got = split_attention(query, keys, values, positions, 0.2, splits=splits, block=16)
    mask = length_mask(positions, length)
    right = decode_attention(query, keys[:4].nan_to_num(), values[:4].nan_to_num(), mask, 0.2)
    assert torch.allclose(got, right, atol=1e-5)


def test_choose_splits():
    from nbkit.generate.kernels import choose_splits

    assert choose_splits(256, 2, 384, 64, 132) == 1
    assert choose_splits(16, 2, 384, 64, 132) == 4
    assert choose_splits(1, 2, 64, 64, 132) == 1


@pytest.mark.parametrize("with_delta", [True, False])
@pytest.mark.parametrize("width", [64, 96])
def test_norm(width, with_delta):
    from nbkit.generate.kernels_layer import add_rms_norm

    x, delta = torch.randn(2, 5, width, device=DEVICE)
    weight = torch.rand(width, device=DEVICE)
    summed = x + delta if with_delta else x.clone()
    got = add_rms_norm(x, delta if with_delta else None, weight, 1e-6)
    assert torch.allclose(got, rms_norm(summed, weight, 1e-6), atol=1e-5)
    assert torch.allclose(x, summed)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("normed", [True, False])
def test_rotate_append(turned, normed):
    from nbkit.generate.kernels_layer import rotate_append

    torch.manual_seed(0)
    qkv = torch.randn(3, (6 + 4) * 16, device=DEVICE)
    angles = torch.rand(40, 8, device=DEVICE) * 6
    table = torch.cat([angles.cos()] * 2, 1), torch.cat([-angles.sin(), angles.sin()], 1)
    norms = tuple(torch.rand(2, 16, device=DEVICE) + 0.5) if normed else None
    keys, values = torch.full((2, 4, 2, 33, 16), 7.0, device=DEVICE)
    positions = torch.tensor([0, 32, 5], device=DEVICE)
    query = rotate_append(qkv, table if turned else None, norms, keys, values, positions, 6, 1e-6)
    q, k, v = qkv.view(3, 10, 16).split((6, 2, 2), 1)
    if norms is not None:
        q, k = rms_norm(q, norms[0], 1e-6), rms_norm(k, norms[1], 1e-6)
    if turned:
        turn = [part[positions][:, None] for part in table]
        q, k = rotate(q, *turn), rotate(k, *turn)
    rows = torch.arange(3, device=DEVICE)
    assert torch.allclose(query, q, atol=1e-5)
    assert torch.allclose(keys[rows, :, positions], k, atol=1e-5)
    assert torch.equal(values[rows, :, positions], v)
    assert (keys == 7).sum() == keys.numel() - k.numel(), "another column was written"


def test_silu():
    from nbkit.generate.kernels_layer import silu_multiply

    joined = torch.randn(3, 2 * 70, device=DEVICE)
    right = torch.nn.functional.silu(joined[:, :70]) * joined[:, 70:]
    assert torch.allclose(silu_multiply(joined, block=32), right, atol=1e-6)


@pytest.mark.parametrize(
    "keywords",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 5},
        {"temperature": 1.3, "top_p": 0.6},
        {"temperature": 0.0},
    ],
)
def test_sampler(keywords):
    from nbkit.generate.kernels_sampler import draw_and_advance

    torch.manual_seed(0)
    batch, vocabulary = 6, 203
    logits = 2 * torch.randn(batch, vocabulary, device=DEVICE)
    logits[1, 7:] = -torch.inf
    names = ("tokens", "positions", "counts")
    state = {name: torch.full((batch,), 3, device=DEVICE) for name in names}
    state["rows"] = torch.tensor([5, 0, 1, 2, 3, 4], device=DEVICE)
    state["limits"] = torch.tensor([9, 9, 4, 9, 9, 9], device=DEVICE)
    state["seeds"] = torch.tensor([1, -2, 2**61, 4, 5, 6], device=DEVICE)
    state["done"] = torch.tensor([0, 0, 0, 1, 0, 0], dtype=torch.int32, device=DEVICE)
    state["out_tokens"] = torch.full((7, 10), -1, device=DEVICE)
    state["out_logprobs"] = torch.zeros(7, 10, device=DEVICE)
    noise = gumbel_noise(state["seeds"], state["counts"], vocabulary)
    tokens, logprobs = draw(logits, noise, **keywords)
    filters = dict(keywords, temperature=keywords["temperature"] or 1.0)
    threshold = filter_threshold(logits, **filters) if keywords["temperature"] else None
    eos = torch.tensor([int(tokens[4]), -1], device=DEVICE)
    draw_and_advance(logits, threshold, keywords["temperature"], eos, state, block=32)
    live = torch.tensor([0, 1, 2, 4, 5], device=DEVICE)
    where = state["rows"][live]
    assert torch.equal(state["out_tokens"][where, 3], tokens[live])
    assert torch.allclose(state["out_logprobs"][where, 3], logprobs[live], atol=1e-5)
    assert torch.equal(state["tokens"][live], tokens[live]) and state["tokens"][3] == 3
    assert state["counts"].tolist() == state["positions"].tolist() == [4, 4, 4, 3, 4, 4]
    ended = [int(token == tokens[4]) for token in tokens.tolist()]
    ended[2] = ended[3] = 1
    assert state["done"].tolist() == ended
    assert (state["out_tokens"] >= 0).sum() == 5, "something else was written"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "keywords",
    [
        {"temperature": 0},
        {"seeds": 3, "eos_ids": (5, 6, 7), "max_batch": 2},
        {"seeds": 4, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "group_size": 2},
    ],
)
def test_the_engine_with_kernels_equals_plain_operations(family, keywords):
    model = make(family).to(DEVICE)
    prompts = some_prompts((3, 9, 1))
    options = EngineOptions(sampler_block=32, block=16, splits=2)
    plain = generate(model, prompts, max_new_tokens=6, backend="torch", **keywords)
    fused = generate(
        model, prompts, max_new_tokens=6, backend="triton", options=options, **keywords
    )
    assert fused.lists() == plain.lists()
    assert torch.allclose(fused.logprobs, plain.logprobs, atol=1e-4)


@pytest.mark.parametrize(
    ("attention", "layers", "sampler"),
    [("triton", "torch", "torch"), ("sdpa", "triton", "torch"), ("sdpa", "torch", "triton")],
)
def test_each_kind_of_kernel_alone(attention, layers, sampler):
    model = make("qwen3").to(DEVICE)
    prompts = some_prompts((4, 2))
    options = EngineOptions(attention, layers, sampler, block=16, sampler_block=64)
    plain = generate(model, prompts, max_new_tokens=4, seeds=0, backend="torch")
    mixed = generate(model, prompts, max_new_tokens=4, seeds=0, options=options)
    assert mixed.lists() == plain.lists()
