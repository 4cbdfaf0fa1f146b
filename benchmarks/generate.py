"""Speed of the sampling engine against `transformers.generate` and against the memory it must read.

    python benchmarks/generate.py --out benchmarks/results/generate_h100.json      # one GPU, ~5 min
    python benchmarks/generate.py --device cpu --out benchmarks/results/generate_cpu.json

One run does it all: bandwidth of a device copy, the ladder of decoding steps, tokens a second at
several batches, prefix sharing, continuous batching, train/inference mismatch, packing. The file is
written after every section. A section that fails or runs over its limit is recorded with its error
and the next begins; on a GPU the first section compares every kernel with plain operations.

The file: `stamp`, `device`, `sections` = {name: {status, seconds, result | error}}, `summary`
(floors, ratios, and each aim with whether it was met).
"""

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import generate_parts as parts  # noqa: E402
import torch  # noqa: E402
from qwen_shapes import QWEN  # noqa: E402

from nbkit.generate import EngineOptions  # noqa: E402
from nbkit.runs import provenance  # noqa: E402

PROMPT, NEW = 128, 256
STEP_AIMS = {"0.5B": 4.0, "1.5B": 3.0, "7B": 1.5}  # times the floor, at batch 64
SPEED_AIM = 30.0  # times transformers.generate, batch 64, 0.5B


class OutOfTimeError(Exception):
    """A section ran over its limit."""


class Bench:
    """Models on demand, sections with limits, and the file that grows."""

    def __init__(self, device: str, out: Path | None, started: Any, budget: float) -> None:
        self.device, self.out, self.started = device, out, started
        self.deadline = time.perf_counter() + budget
        self.models: dict[str, Any] = {}
        self.data: dict[str, Any] = {"device": device, "sections": {}, "summary": {}}

    def model(self, name: str, dtype: torch.dtype | None = None) -> Any:
        """A randomly initialised model; one at a time on the device."""
        if name not in self.models:
            self.drop()
            from transformers import Qwen2Config, Qwen2ForCausalLM

            config = Qwen2Config(**QWEN[name], max_position_embeddings=4096)
            torch.manual_seed(0)
            plain = torch.float32 if self.device == "cpu" else torch.bfloat16
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype or plain)
            try:
                with torch.device(self.device):
                    self.models[name] = Qwen2ForCausalLM(config).eval().requires_grad_(False)
            finally:
                torch.set_default_dtype(before)
        return self.models[name]

    def drop(self) -> None:
        """Free the models and all that the engine keeps for them."""
        for model in self.models.values():
            parts.release(model)
        self.models.clear()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def run(self, name: str, limit: float, section: Callable[[], Any]) -> None:
        """Run a section within a limit of seconds, note what came of it, write the file."""
        left = self.deadline - time.perf_counter()
        entry: dict[str, Any] = {"limit": limit}
        start = time.perf_counter()
        if left < 3:
            entry.update(status="skipped", error="the time of the whole run was used up")
        else:
            signal.signal(signal.SIGALRM, _alarm)
            signal.setitimer(signal.ITIMER_REAL, min(limit, left))
            try:
                entry.update(status="ok", result=section())
            except OutOfTimeError:
                entry.update(status="out of time", error=f"over {min(limit, left):.0f} s")
            except Exception as error:  # recorded; the other sections still run
                text = traceback.format_exc()[-3000:]
                entry.update(status="failed", error=f"{type(error).__name__}: {error}", trace=text)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        entry["seconds"] = round(time.perf_counter() - start, 3)
        self.data["sections"][name] = entry
        self.data["summary"] = summary(self.data["sections"])
        print(f"[{name}] {entry['status']} in {entry['seconds']:.1f} s", flush=True)
        if entry["status"] != "ok":
            print(entry.get("trace") or entry["error"], flush=True)
        else:
            print("   ", short(entry["result"]), flush=True)
        if self.out:
            provenance.write_json(self.out, {"stamp": self.started.stamp(), **self.data})


def _alarm(*_: Any) -> None:
    raise OutOfTimeError


def short(result: Any) -> str:
    """One line of a result for the log."""
    text = json.dumps(result, default=str)
    return text if len(text) < 1500 else text[:1500] + " …"


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
    import copy

    model = bench.model(size)
    found = {}
    wide = copy.deepcopy(model).float()
    for name, factor in (("as initialised", 1.0), ("sharpened", 6.0)):
        with torch.no_grad():
            model.model.norm.weight.fill_(factor)
            wide.model.norm.weight.fill_(factor)
        dtype = torch.bfloat16 if bench.device == "cpu" else None
        found[name] = parts.mismatch(model, wide, rows, 64, new, None, dtype)
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
        return parts.packing(model, rows, mean, most, budget)
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
    from nbkit.generate import generate

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
    found = [(parts.seconds(theirs), parts.seconds(mine)) for _ in range(rounds)]
    ratios = sorted(a / b for a, b in found)
    return {
        "batch": batch,
        "group_size": group,
        "prompt": prompt,
        "new": new,
        "transformers_seconds": [a for a, _ in found],
        "ours_seconds": [b for _, b in found],
        "speed_up": ratios[len(ratios) // 2],
        "speed_up_least": ratios[0],
        "speed_up_most": ratios[-1],
    }


def summary(sections: dict[str, Any]) -> dict[str, Any]:
    """Floors, ratios and aims, from the sections that are there."""
    good = {name: entry["result"] for name, entry in sections.items() if entry["status"] == "ok"}
    found: dict[str, Any] = {"steps": [], "aims": []}
    bandwidth = good.get("bandwidth", {}).get("bytes_per_second")
    for size, aim in STEP_AIMS.items():
        for row in good.get(f"ours {size}", []):
            if not bandwidth:
                continue
            least = 1e3 * row["bytes"] / bandwidth
            over = row["ms_per_step"] / least
            found["steps"].append(
                {
                    "size": size,
                    "batch": row["batch"],
                    "ms_per_step": row["ms_per_step"],
                    "floor_ms": least,
                    "over_floor": over,
                    "tokens_per_second": row["tokens_per_second"],
                }
            )
            if row["batch"] == 64:
                found["aims"].append(
                    {
                        "aim": f"{size}, batch 64: at most {aim} times the floor",
                        "value": over,
                        "met": over <= aim,
                    }
                )
    mine = [r for r in good.get("ours 0.5B", []) if r["batch"] == 64]
    theirs = [r for r in good.get("library dynamic 0.5B", []) if r["batch"] == 64]
    if mine and theirs:
        ratio = theirs[0]["ms_per_step"] / mine[0]["ms_per_step"]
        found["aims"].append(
            {
                "aim": f"0.5B, batch 64: at least {SPEED_AIM:.0f} times transformers.generate",
                "value": ratio,
                "met": ratio >= SPEED_AIM,
            }
        )
    return found


def gpu_sections(bench: Bench, quick: bool) -> dict[str, tuple[float, Callable[[], Any]]]:
    """The sections of a GPU run in the order of their worth; models change seldom."""
    from generate_selftest import kernels_agree

    new = 32 if quick else NEW
    all_batches = [16, 64, 256]
    return {
        "selftest": (75, lambda: kernels_agree(bench.device)),
        "bandwidth": (10, lambda: parts.copy_bandwidth(bench.device)),
        "ours 0.5B": (60, lambda: ours_at(bench, "0.5B", [64, 16, 256], new)),
        "library dynamic 0.5B": (40, lambda: library_at(bench, "0.5B", all_batches, False)),
        "profile 0.5B": (20, lambda: profile(bench, "0.5B", 64)),
        "ladder 0.5B": (60, lambda: ladder(bench, "0.5B", 64, new)),
        "library static 0.5B": (40, lambda: library_at(bench, "0.5B", all_batches, True)),
        "prefix 0.5B": (
            30,
            lambda: parts.prefix_sharing(bench.model("0.5B"), 16, 16, 512, 64, None),
        ),
        "continuous 0.5B": (
            40,
            lambda: parts.continuous_batching(bench.model("0.5B"), 256, 64, 128, 96, 512, None),
        ),
        "mismatch 0.5B": (40, lambda: mismatch(bench, "0.5B", 32, 128)),
        "packing 0.5B": (40, lambda: packing(bench, "0.5B", 64, 256, 1024, 4096)),
        "tune 0.5B": (60, lambda: tune(bench, "0.5B", [64, 256])),
        "filters 0.5B": (30, lambda: filters(bench, "0.5B", 64, 64)),
        "ours 1.5B": (60, lambda: ours_at(bench, "1.5B", [64, 16, 256], new)),
        "profile 1.5B": (20, lambda: profile(bench, "1.5B", 64)),
        "library dynamic 1.5B": (40, lambda: library_at(bench, "1.5B", all_batches, False)),
        "ladder 1.5B": (50, lambda: ladder(bench, "1.5B", 64, new)),
        "library static 1.5B": (40, lambda: library_at(bench, "1.5B", all_batches, True)),
        "ours 7B": (60, lambda: ours_at(bench, "7B", [64], new)),
        "profile 7B": (20, lambda: profile(bench, "7B", 64)),
        "library dynamic 7B": (30, lambda: library_at(bench, "7B", [64], False)),
        "vllm": (5, vllm_row),
        "compiled 0.5B": (
            100,
            lambda: parts.ours(bench.model("0.5B"), 64, PROMPT, 64, parts.COMPILED),
        ),
        "library compiled 0.5B": (
            100,
            lambda: parts.library(
                bench.model("0.5B"), 64, PROMPT, static=True, compiled=True, steps=16
            ),
        ),
    }


def cpu_sections(bench: Bench, quick: bool) -> dict[str, tuple[float, Callable[[], Any]]]:
    """The sections of a CPU run: small models, float32."""
    rounds = 2 if quick else 5
    sections: dict[str, tuple[float, Callable[[], Any]]] = {
        "bandwidth": (30, lambda: parts.copy_bandwidth("cpu", 256, 10)),
    }
    for size, batches, new in (
        ("tiny", (1, 16, 64), 64),
        ("small", (1, 16, 64), 32),
        ("medium", (1, 16), 16),
    ):
        for batch in batches:
            sections[f"pairs {size} batch {batch}"] = (
                300,
                lambda s=size, b=batch, n=new: pairs(bench, s, b, 16, 16 if quick else n, rounds),
            )
    new = 16 if quick else 32
    sections |= {
        "ladder tiny": (60, lambda: ladder(bench, "tiny", 16, new)),
        "ladder small": (300, lambda: ladder(bench, "small", 16, new)),
        "group small": (
            300,
            lambda: pairs(bench, "small", 4, 64, new, rounds, group=8),
        ),
        "prefix small": (
            300,
            lambda: parts.prefix_sharing(bench.model("small"), 4, 8, 128, new, None),
        ),
        "continuous small": (
            300,
            lambda: parts.continuous_batching(bench.model("small"), 64, 16, 16, 32, 128, None),
        ),
        "mismatch small": (300, lambda: mismatch(bench, "small", 16, new)),
        "packing small": (300, lambda: packing(bench, "small", 32, 64, 256, 1024)),
        "vllm": (5, vllm_row),
    }
    return sections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the stamped JSON goes")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="fewer steps, to see that it runs")
    parser.add_argument("--only", nargs="+", help="words that the names of sections begin with")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds for the whole run")
    arguments = parser.parse_args()
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    config = {"device": device, "quick": arguments.quick, "prompt": PROMPT, "new": NEW}
    config["shapes"] = QWEN
    started = provenance.start(seeds=[0], config=config, watched=("nbkit", "benchmarks"))
    bench = Bench(device, arguments.out, started, arguments.budget)
    sections = (gpu_sections if device == "cuda" else cpu_sections)(bench, arguments.quick)
    for name, (limit, section) in sections.items():
        if not arguments.only or any(name.startswith(word) for word in arguments.only):
            bench.run(name, limit, section)
    print(json.dumps(bench.data["summary"], indent=1))


if __name__ == "__main__":
    main()
