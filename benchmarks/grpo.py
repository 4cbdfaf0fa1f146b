"""GRPO beside TRL's GRPOTrainer: one model, one tokenizer, one reward, one batch, in one run.

    python benchmarks/grpo.py --out benchmarks/results/grpo_cpu.json                    # ~5 min
    python benchmarks/grpo.py --device cuda --out benchmarks/results/grpo_h100.json     # ~8 min

On a processor both learn sums of two numbers from the same taught model, turn by turn, three seeds:
both curves, both speeds in seconds of the processor. On a GPU a randomly initialised Qwen2 of half
a billion parameters samples 64 completions of 256 tokens a step and learns from them; steps 3 to 8
are timed. There TRL is first asked for one short step in several set-ups, from its defaults on, and
each says whether its gradient is finite and, if not, of which parameters. TRL is timed in the first
that is healthy.

The file is written after every part: `stamp`, `learning` or `probes`, `trl`, `nbkit`, `speedup`.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from grpo_learning import UPDATES, learn  # noqa: E402
from grpo_speed import speed  # noqa: E402
from side_by_side import ratios, spread, start  # noqa: E402

SEEDS = (1, 2, 3)


def main() -> None:
    """Run the form that suits the device."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--lessons", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--speed", action="store_true", help="on a processor, the GPU part in tiny")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    config = {name: str(value) for name, value in vars(options).items()}
    record = start(options.out, seeds=options.seeds, config=config)
    data: dict[str, Any] = {"device": options.device}

    def save() -> None:
        record.finish(data)

    if options.device == "cuda" or options.speed:
        speed(data, save, options.device, small=options.device == "cpu")
    else:
        data["learning"] = []
        for seed in options.seeds:
            data["learning"].append(learn(seed, options.updates, options.lessons))
            save()
        trl, nbkit = (
            [run[name]["seconds"] for run in data["learning"]] for name in ("trl", "nbkit")
        )
        each = ratios(trl, nbkit)
        data["speedup"] = {"each": each, "median": spread(each).median}
    save()
    print(json.dumps({k: v for k, v in data.items() if k in ("speedup", "trl")}, indent=1))


if __name__ == "__main__":
    main()
