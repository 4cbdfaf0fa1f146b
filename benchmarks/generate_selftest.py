"""The GPU kernels against plain operations, at the sizes of the benchmark. Plain data out."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nbkit.generate import EngineOptions, clear, generate
from nbkit.generate.attention import decode_attention, length_mask
from nbkit.generate.model import rms_norm, rotate
from nbkit.generate.sampling import draw, filter_threshold, gumbel_noise


def kernels_agree(device: str) -> dict[str, Any]:
    """Largest errors of every kernel; a kernel that fails is named with its error text."""
    found: dict[str, Any] = {}
    for name, test in (
        ("attention", attention_errors),
        ("layer", layer_errors),
        ("sampler", sampler_errors),
        ("engine", engine_agrees),
    ):
        start = time.perf_counter()
        try:
            found[name] = {"ok": True, **test(device)}
        except Exception as error:  # noted, and the next kernel is tried
            found[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        found[name]["seconds"] = time.perf_counter() - start
        print("selftest", name, found[name], flush=True)
    return found


def _close(got: Tensor, right: Tensor, tolerance: float) -> float:
    error = float((got.double() - right.double()).abs().max())
    if not error <= tolerance:
        raise AssertionError(f"off by {error}, more than {tolerance}")
    return error


def attention_errors(device: str) -> dict[str, float]:
    from nbkit.generate.kernels import split_attention

    out = {}
    shapes = ((14, 2, 64), (12, 2, 128), (28, 4, 128))
    cases = ((torch.float32, 1e-4, shapes[:1]), (torch.bfloat16, 4e-2, shapes))
    for dtype, tolerance, some in cases:
        for heads, kv_heads, width in some:
            options = {"device": device, "dtype": dtype}
            query = torch.randn(16, heads, width, **options)
            keys = torch.randn(18, kv_heads, 384, width, **options)
            values = torch.randn(18, kv_heads, 384, width, **options)
            positions = torch.randint(384, (16,), device=device)
            positions[:3] = torch.tensor([0, 383, 63])
            scale = width**-0.5
            mask = length_mask(positions, 384)
            exact = decode_attention(
                query.double(), keys[:16].double(), values[:16].double(), mask, scale
            )
            for splits in (1, 8):
                got = split_attention(query, keys, values, positions, scale, splits=splits)
                out[f"{dtype} {heads}/{kv_heads}×{width} splits {splits}"] = _close(
                    got, exact, tolerance
                )
    return out


def layer_errors(device: str) -> dict[str, float]:
    from nbkit.generate.kernels_layer import add_rms_norm, rotate_append, silu_multiply

    out = {}
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.13)):
        options = {"device": device, "dtype": dtype}
        for width in (896, 3584):
            x, delta = torch.randn(16, width, **options), torch.randn(16, width, **options)
            weight = torch.rand(width, **options) + 0.5
            right = rms_norm(x + delta, weight, 1e-6)
            summed = x + delta
            got = add_rms_norm(x, delta, weight, 1e-6)
            out[f"{dtype} norm {width}"] = _close(got, right, tolerance)
            _close(x, summed, tolerance)
        for norms in (None, tuple(torch.rand(64, **options) + 0.5 for _ in range(2))):
            qkv = torch.randn(16, 18 * 64, **options)
            angles = torch.rand(384, 32, device=device) * 6
            cosines = torch.cat([angles.cos()] * 2, 1).to(dtype)
            sines = torch.cat([-angles.sin(), angles.sin()], 1).to(dtype)
            keys, values = (torch.zeros(16, 2, 384, 64, **options) for _ in range(2))
            positions = torch.randint(384, (16,), device=device)
            query = rotate_append(qkv, (cosines, sines), norms, keys, values, positions, 14, 1e-6)
            q, k, v = qkv.view(16, 18, 64).split((14, 2, 2), 1)
            if norms is not None:
                q, k = rms_norm(q, norms[0], 1e-6), rms_norm(k, norms[1], 1e-6)
            turn = cosines[positions][:, None], sines[positions][:, None]
            rows = torch.arange(16, device=device)
            name = f"{dtype} rotate{' with norms' if norms else ''}"
            out[name] = _close(query, rotate(q, *turn), tolerance)
            _close(keys[rows, :, positions], rotate(k, *turn), tolerance)
            _close(values[rows, :, positions], v, 0.0)
        joined = torch.randn(16, 2 * 4864, **options)
        gate, up = joined.chunk(2, 1)
        right = torch.nn.functional.silu(gate) * up
        out[f"{dtype} silu"] = _close(silu_multiply(joined), right, tolerance)
    return out


def sampler_errors(device: str) -> dict[str, Any]:
    from nbkit.generate.kernels_sampler import draw_and_advance

    out: dict[str, Any] = {}
    batch, vocabulary = 64, 151_936
    for name, temperature, top_k, top_p in (
        ("plain", 1.0, None, None),
        ("temperature", 0.7, None, None),
        ("top-k", 1.0, 50, None),
        ("top-p", 0.8, None, 0.9),
        ("greedy", 0.0, None, None),
    ):
        logits = (3 * torch.randn(batch, vocabulary, device=device)).bfloat16()
        state = {
            n: torch.zeros(batch, dtype=torch.int64, device=device)
            for n in ("tokens", "positions", "counts")
        }
        state["rows"] = torch.arange(batch, device=device)
        state["limits"] = torch.full((batch,), 4, device=device)
        state["seeds"] = torch.randint(-(2**62), 2**62, (batch,), device=device)
        state["done"] = torch.zeros(batch, dtype=torch.int32, device=device)
        state["done"][5] = 1
        state["out_tokens"] = torch.full((batch + 1, 5), -1, device=device)
        state["out_logprobs"] = torch.zeros(batch + 1, 5, device=device)
        keywords = {"temperature": temperature or 1.0, "top_k": top_k, "top_p": top_p}
        threshold = filter_threshold(logits, **keywords) if temperature else None
        noise = gumbel_noise(state["seeds"], state["counts"], vocabulary)
        keywords["temperature"] = temperature
        right, logp = draw(logits, noise, **keywords)
        eos = torch.tensor([int(right[7]), -1], device=device)
        draw_and_advance(logits, threshold, temperature, eos, state)
        live = torch.arange(batch, device=device) != 5
        got = state["out_tokens"][:batch, 0]
        same = (got == right)[live]
        if not temperature:  # the largest of bfloat16 logits may be several
            same = (logits.gather(1, got.clamp(min=0)[:, None])[:, 0] == logits.amax(1))[live]
        out[f"{name}: same tokens"] = float(same.float().mean())
        if out[f"{name}: same tokens"] < 0.98:
            raise AssertionError(f"{name}: {out}")
        both = live & (got == right)
        out[f"{name}: logprob error"] = _close(
            state["out_logprobs"][:batch, 0][both], logp[both], 1e-3
        )
        ended = state["done"][7] == 1 or got[7] != right[7]
        if not ended or state["out_tokens"][5, 0] != -1 or state["counts"][3] != 1:
            raise AssertionError(f"{name}: the state did not move as it should")
    return out


def engine_agrees(device: str) -> dict[str, Any]:
    """Small float32 models: graph and kernels give the tokens of plain operations, and of HF."""
    import transformers as tr

    sizes = {
        "vocab_size": 1009,
        "hidden_size": 128,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    }
    makers: dict[str, Callable[[], Any]] = {
        "qwen2": lambda: tr.Qwen2ForCausalLM(tr.Qwen2Config(**sizes)),
        "qwen3": lambda: tr.Qwen3ForCausalLM(tr.Qwen3Config(**sizes, head_dim=32)),
        "gpt2": lambda: tr.GPT2LMHeadModel(
            tr.GPT2Config(vocab_size=1009, n_embd=128, n_layer=2, n_head=4, n_positions=512)
        ),
    }
    out: dict[str, Any] = {}
    plain = EngineOptions("sdpa", "torch", "torch", graph=False)
    full = EngineOptions("triton", "triton", "triton", graph=True)
    for name, make in makers.items():
        torch.manual_seed(0)
        with torch.device(device):
            model = make().eval()
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, 0, 0.1)
        asked = torch.randint(1009, (9, 40), device="cpu").tolist()
        asked = [row[: 5 + 4 * number] for number, row in enumerate(asked)]
        for case, keywords in (
            ("greedy", {"temperature": 0.0}),
            ("sampled", {"seeds": 1, "temperature": 0.7, "top_p": 0.9}),
            ("refilled", {"seeds": 1, "group_size": 2, "max_batch": 8, "eos_ids": (3, 4, 5)}),
        ):
            results = [
                generate(model, asked, max_new_tokens=40, options=options, **keywords)
                for options in (plain, full)
            ]
            same = results[0].tokens.shape == results[1].tokens.shape and bool(
                (results[0].tokens == results[1].tokens).all()
            )
            rows = [a == b for a, b in zip(*(r.lists() for r in results), strict=True)]
            out[f"{name} {case}: rows equal"] = sum(rows) / len(rows)
            if not same and sum(rows) < 0.8 * len(rows):
                raise AssertionError(f"{name} {case}: {out}")
        with torch.no_grad():  # an update in place is seen through a recorded graph
            for parameter in model.parameters():
                parameter.mul_(0.9)
        results = [
            generate(model, asked, max_new_tokens=40, temperature=0.0, options=options)
            for options in (plain, full)
        ]
        rows = [a == b for a, b in zip(*(r.lists() for r in results), strict=True)]
        out[f"{name} after an update: rows equal"] = sum(rows) / len(rows)
        clear(model)
    return out
