"""The measurements of `benchmarks/generate.py`, one function each; plain data out."""

from collections.abc import Callable
from typing import Any

import torch
from decode_loops import padded_loop
from side_by_side import seconds, spread

from nbkit.generate import EngineOptions, clear, generate

LADDER = {
    "static cache": EngineOptions("sdpa", "torch", "torch", graph=False),
    "+ CUDA graph": EngineOptions("sdpa", "torch", "torch", graph=True),
    "+ attention kernel": EngineOptions("triton", "torch", "torch", graph=True),
    "+ layer kernels": EngineOptions("triton", "triton", "torch", graph=True),
    "+ fused sampler": EngineOptions("triton", "triton", "triton", graph=True),
}
COMPILED = EngineOptions("sdpa", "torch", "torch", graph=True, compile=True)


def prompts(vocabulary: int, batch: int, length: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (batch, length), generator=generator).tolist()


def copy_bandwidth(device: str, megabytes: int = 1024, rounds: int = 20) -> dict[str, float]:
    """Bytes read and written a second by a device copy, best and median of the rounds."""
    source = torch.empty(megabytes * 2**20, dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    target.copy_(source)
    times = [seconds(lambda: target.copy_(source)) for _ in range(rounds)]
    moved = 2 * source.numel()
    return {
        "bytes_per_second": moved / min(times),
        "median_bytes_per_second": moved / spread(times).median,
    }


def floor_bytes(model: Any, batch: int, prompt: int, new: int) -> dict[str, float]:
    """Bytes that a decode step has to read at least: every weight once, every cached key and value.

    The cache is taken at its mean length. An embedding table that is not also the head is left
    out: a step reads a row of it for each sequence only.
    """
    config = model.config
    tied = model.lm_head.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    if not tied:
        table = model.get_input_embeddings().weight
        weights -= table.numel() * table.element_size()
    heads = config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * heads * head_dim * model.lm_head.weight.element_size()
    cache = batch * (prompt + new / 2) * token
    return {"weight_bytes": weights, "cache_bytes": cache, "bytes": weights + cache}


def ours(
    model: Any,
    batch: int,
    prompt: int,
    new: int,
    options: EngineOptions | None = None,
    rounds: int = 2,
    **sampling: Any,
) -> dict[str, Any]:
    """Whole calls of `generate`, after one that warms up; temperature 1 if nothing is said."""
    asked = prompts(model.config.vocab_size, batch, prompt)

    def call() -> Any:
        return generate(model, asked, max_new_tokens=new, seeds=0, options=options, **sampling)

    first = seconds(call)
    stats: list[Any] = []
    times = [seconds(lambda: stats.append(call().stats)) for _ in range(rounds)]
    steps = [1e3 * s["decode_seconds"] / s["decode_steps"] for s in stats]
    if not torch.cuda.is_available():  # of the processor, the reading of the prompts included
        steps = [1e3 * took / new for took in times]
    return {
        "batch": batch,
        "prompt": prompt,
        "new": new,
        "ms_per_step": min(steps),
        "ms_per_step_rounds": steps,
        "seconds": min(times),
        "tokens_per_second": batch * new / min(times),
        "first_call_seconds": first,
    }


def between(run: Callable[[int], Any], short: int, long: int, warm: int | None = None) -> float:
    """Milliseconds of a step: what `long` steps take more than `short` ones."""
    if warm:
        run(warm)
    few = seconds(lambda: run(short))
    many = seconds(lambda: run(long))
    return 1e3 * (many - few) / (long - short)


def library(
    model: Any, batch: int, prompt: int, *, static: bool, compiled: bool = False, steps: int = 16
) -> dict[str, Any]:
    """`transformers.generate`, sampling at temperature 1, a few steps.

    With a static cache `generate` compiles its step by itself on a GPU, unless told not to; there
    the reading of the prompt is counted in, so that one length of cache is compiled only.
    """
    ids = torch.tensor(prompts(model.config.vocab_size, batch, prompt), device=model.device)
    keywords: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
    if static:
        keywords.update(cache_implementation="static", disable_compile=not compiled)

    def run(new: int) -> Any:
        return model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            min_new_tokens=new,
            eos_token_id=None,
            pad_token_id=0,
            **keywords,
        )

    if not static:
        step = between(run, 4, 4 + steps, warm=2)
    else:
        total = 4 + 2 * steps
        run(total)
        step = 1e3 * min(seconds(lambda: run(total)) for _ in range(2)) / total
    return {"batch": batch, "prompt": prompt, "steps": steps, "ms_per_step": step}


def naive(model: Any, batch: int, length: int, steps: int = 3) -> dict[str, Any]:
    """No cache: the whole batch through the model for one token, at the mean length."""
    ids = torch.tensor(prompts(model.config.vocab_size, batch, length), device=model.device)

    def run(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                model(input_ids=ids, use_cache=False, logits_to_keep=1).logits.argmax(-1)

    run(1)
    return {
        "batch": batch,
        "length": length,
        "ms_per_step": 1e3 * seconds(lambda: run(steps)) / steps,
    }


def growing(model: Any, batch: int, prompt: int, steps: int = 16) -> dict[str, Any]:
    """Our forward pass with a cache that grows by concatenation (left-padded batch)."""
    asked = prompts(model.config.vocab_size, batch, prompt)
    step = between(lambda new: padded_loop(model, asked, new, seeds=0), 4, 4 + steps, warm=2)
    return {"batch": batch, "prompt": prompt, "steps": steps, "ms_per_step": step}


def fastest(call: Callable[[], Any], rounds: int = 2) -> dict[str, float]:
    """Statistics of the fastest of some calls after one that warms up."""
    call()
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        took = seconds(lambda: found.append(dict(call().stats)))
        found[-1]["seconds"] = took
    return min(found, key=lambda stats: stats["seconds"])


def prefix_sharing(
    model: Any, groups: int, size: int, prompt: int, new: int, options: EngineOptions | None
) -> dict[str, Any]:
    """The same rows with the prompt read once a group, and once a row."""
    asked = prompts(model.config.vocab_size, groups, prompt)
    found: dict[str, Any] = {"groups": groups, "group_size": size, "prompt": prompt, "new": new}
    for name, share in (("shared", True), ("not shared", False)):
        keywords = {"max_new_tokens": new, "seeds": 0, "group_size": size, "share_prefix": share}
        best = fastest(lambda k=keywords: generate(model, asked, options=options, **k))
        found[name] = best
    found["speed_up"] = found["not shared"]["seconds"] / found["shared"]["seconds"]
    return found


def spread_lengths(rows: int, mean: float, most: int, seed: int = 0) -> list[int]:
    """Log-normal lengths with a long tail, as answers of a reasoning model have."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.exp(0.9 * torch.randn(rows, generator=generator))
    return (drawn * mean / drawn.mean()).round().clamp(4, most).int().tolist()


def continuous_batching(
    model: Any,
    rows: int,
    slots: int,
    prompt: int,
    mean: float,
    most: int,
    options: EngineOptions | None,
) -> dict[str, Any]:
    """Rows with a spread of lengths: waves that wait for the longest, against refilled slots."""
    asked = prompts(model.config.vocab_size, rows, prompt)
    limits = spread_lengths(rows, mean, most)
    found: dict[str, Any] = {"rows": rows, "slots": slots, "lengths": limits}
    for name, on in (("waves", False), ("continuous", True)):
        keywords = {
            "max_new_tokens": limits,
            "seeds": 0,
            "max_batch": slots,
            "continuous_batching": on,
        }
        best = fastest(lambda k=keywords: generate(model, asked, options=options, **k))
        found[name] = {
            **best,
            "tokens_per_second": sum(limits) / best["seconds"],
            "busy_share": sum(limits) / best["slot_steps"],
        }
    found["speed_up"] = found["waves"]["seconds"] / found["continuous"]["seconds"]
    return found


def release(model: Any) -> None:
    clear(model)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
