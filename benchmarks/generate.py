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
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import generate_parts as parts  # noqa: E402
import torch  # noqa: E402
from generate_bench import Bench  # noqa: E402
from generate_sections import (  # noqa: E402
    NEW,
    PROMPT,
    filters,
    ladder,
    library_at,
    mismatch,
    ours_at,
    packing,
    pairs,
    profile,
    tune,
    vllm_row,
)
from generate_selftest import kernels_agree  # noqa: E402
from qwen_shapes import QWEN  # noqa: E402
from side_by_side import start  # noqa: E402


def gpu_sections(bench: Bench, quick: bool) -> dict[str, tuple[float, Callable[[], Any]]]:
    """The sections of a GPU run in the order of their worth; models change seldom."""
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
    bench = Bench(device, start(arguments.out, seeds=[0], config=config), arguments.budget)
    sections = (gpu_sections if device == "cuda" else cpu_sections)(bench, arguments.quick)
    for name, (limit, section) in sections.items():
        if not arguments.only or any(name.startswith(word) for word in arguments.only):
            bench.run(name, limit, section)
    print(json.dumps(bench.data["summary"], indent=1))


if __name__ == "__main__":
    main()
