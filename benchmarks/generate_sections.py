"""The sections of `benchmarks/generate.py` on a model of the bench; plain data out."""

import copy
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import generate_parts as parts
import generate_trainer
import torch
from generate_bench import Bench, OutOfTimeError, short
from side_by_side import ratios, spread, timed_in_turn

from nbkit.generate import EngineOptions, generate

PROMPT, NEW = 128, 256


def ladder(bench: Bench, size: str, batch: int, new: int) -> dict[str, Any]:
    """Milliseconds of a step on every rung, the model the same."""
    model = bench.model(size)
    found: dict[str, Any] = {}
    tries: dict[str, Callable[[], Any]] = {
        "naive": lambda: parts.naive(model, batch, PROMPT + NEW // 2),
        "growing cache": lambda: parts.growing(model, batch, PROMPT),
    }
    for name, options in parts.LADDER.items():
        if bench.device == "cpu" and options.graph:
            continue
        tries[name] = lambda o=options: parts.ours(
            model, batch, PROMPT, new if o.graph else min(new, 48), o
        )
    for name, run in tries.items():
        try:
            found[name] = run()
        except OutOfTimeError:
            raise
        except Exception as error:  # one rung that fails leaves the others standing
            found[name] = {"error": f"{type(error).__name__}: {error}"[:1500]}
        print(f"    {size} batch {batch} {name}: {short(found[name])}", flush=True)
        parts.release(model)
    return found


def ours_at(bench: Bench, size: str, batches: list[int], new: int) -> list[dict[str, Any]]:
    """The engine as it comes, at several batches, beside the floor."""
    model = bench.model(size)
    rows = []
    for batch in batches:
        row = parts.ours(model, batch, PROMPT, new)
        rows.append({**row, **parts.floor_bytes(model, batch, PROMPT, new)})
        print(f"    {size}: {short(rows[-1])}", flush=True)
        parts.release(model)
    return rows


def library_at(bench: Bench, size: str, batches: list[int], static: bool) -> list[dict[str, Any]]:
    model = bench.model(size)
    return [
        parts.library(model, batch, PROMPT, static=static, steps=8 if static else 16)
        for batch in batches
    ]


def tune(bench: Bench, size: str, batches: list[int]) -> list[dict[str, Any]]:
    """A few settings of the attention kernel, whole steps timed."""
    model = bench.model(size)
    rows = []
    for batch in batches:
        for splits, block, stages, warps in (
            (1, 64, 2, 4),
            (1, 64, 3, 4),
            (1, 128, 2, 4),
            (2, 64, 3, 4),
            (4, 64, 2, 4),
            (2, 32, 3, 2),
        ):
            options = EngineOptions(splits=splits, block=block, stages=stages, warps=warps)
            row = parts.ours(model, batch, PROMPT, 128, options, rounds=1)
            rows.append(
                {
                    "batch": batch,
                    "splits": splits,
                    "block": block,
                    "stages": stages,
                    "warps": warps,
                    "ms_per_step": row["ms_per_step"],
                }
            )
            print(f"    {short(rows[-1])}", flush=True)
            parts.release(model)
    return rows


def profile(bench: Bench, size: str, batch: int) -> list[dict[str, Any]]:
    """Where a decode step spends the GPU: microseconds and launches a step, by kernel."""
    model = bench.model(size)
    steps = 32
    parts.ours(model, batch, PROMPT, steps, rounds=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        parts.ours(model, batch, PROMPT, steps, rounds=1)
    # Two calls of `steps` steps were recorded, with one reading of the prompts each.
    events = sorted(recorded.key_averages(), key=lambda e: -e.self_device_time_total)
    return [
        {
            "kernel": event.key[:90],
            "us_per_step": event.self_device_time_total / (2 * steps),
            "launches_per_step": event.count / (2 * steps),
        }
        for event in events[:24]
    ]


def mismatch(bench: Bench, size: str, rows: int, new: int) -> dict[str, Any]:
    """As initialised, and sharpened: a trained model's logits spread more."""
    model = bench.model(size)
    found = {}
    wide = copy.deepcopy(model).float()
    for name, factor in (("as initialised", 1.0), ("sharpened", 6.0)):
        with torch.no_grad():
            model.model.norm.weight.fill_(factor)
            wide.model.norm.weight.fill_(factor)
        dtype = torch.bfloat16 if bench.device == "cpu" else None
        found[name] = generate_trainer.mismatch(model, wide, rows, 64, new, None, dtype)
        parts.release(model)
    with torch.no_grad():
        model.model.norm.weight.fill_(1.0)
    return found


FILTERS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "greedy": {"temperature": 0.0},
    "top-k 50": {"top_k": 50},
    "top-p 0.95": {"top_p": 0.95},
    "top-k 50, top-p 0.95": {"top_k": 50, "top_p": 0.95},
    "four EOS ids, looked at every 16 steps": {"eos_ids": (1, 2, 3, 4)},
}


def filters(bench: Bench, size: str, batch: int, new: int) -> dict[str, float]:
    """Milliseconds of a step by what is asked of the sampler; top-p alone sorts the vocabulary."""
    model = bench.model(size)
    found = {}
    for name, sampling in FILTERS.items():
        found[name] = parts.ours(model, batch, PROMPT, new, rounds=1, **sampling)["ms_per_step"]
    parts.release(model)
    return found


def packing(bench: Bench, size: str, rows: int, mean: float, most: int, budget: int) -> Any:
    model = bench.model(size).requires_grad_(True)
    try:
        return generate_trainer.packing(model, rows, mean, most, budget)
    finally:
        model.zero_grad(set_to_none=True)
        model.requires_grad_(False)


def vllm_row() -> dict[str, Any]:
    """vLLM beside ours, or the reason why not."""
    if find_spec("vllm") is None:
        return {"status": "not installed"}
    import vllm

    return {"status": "installed, not measured here", "version": vllm.__version__}


def pairs(
    bench: Bench, size: str, batch: int, prompt: int, new: int, rounds: int, group: int = 1
) -> Any:
    """Whole calls of `transformers.generate` and ours in turn; the ratio of each pair."""
    model = bench.model(size)
    asked = parts.prompts(model.config.vocab_size, batch, prompt)
    ids = torch.tensor(asked, device=model.device)

    def theirs() -> Any:
        return model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            min_new_tokens=new,
            num_return_sequences=group,
            do_sample=True,
            top_k=0,
            eos_token_id=None,
            pad_token_id=0,
        )

    def mine() -> Any:
        return generate(model, asked, max_new_tokens=new, seeds=0, group_size=group)

    theirs(), mine()
    found = timed_in_turn({"transformers": theirs, "ours": mine}, rounds)
    speed_up = spread(ratios(found["transformers"], found["ours"]))
    return {
        "batch": batch,
        "group_size": group,
        "prompt": prompt,
        "new": new,
        "transformers_seconds": found["transformers"],
        "ours_seconds": found["ours"],
        "speed_up": speed_up.median,
        "speed_up_least": speed_up.least,
        "speed_up_most": speed_up.most,
    }
