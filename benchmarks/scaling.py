"""Policy updates of GRPO over several GPUs: speed, MFU, memory, communication, one factor a time.

    python benchmarks/scaling.py --gpus 4 --plan first --budget 400 --out results/scaling.json
    python benchmarks/scaling.py --device cpu --plan selftest         # two gloo processes, a minute

Randomly initialised Qwen2 shapes at sequence 2048, one minibatch a step, float32 weights in the
optimiser. The file is written after every configuration, each of which has its own processes and
its own limit; those that need fewer GPUs than there are run side by side, and say so.

The file: `stamp`, `configurations` = [{setting, status, seconds_total, beside, result | error}],
`summary` (ratios to the plain set-up of the same shape and back-end, weak and strong scaling).
"""

import argparse
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import scaling_worker  # noqa: E402

from nbkit import provenance  # noqa: E402
from nbkit.parallel.launch import RanksFailedError, run_ranks  # noqa: E402

PRELOAD = ("scaling_worker", "transformers.models.qwen2.modeling_qwen2")


@dataclass(frozen=True)
class Setting:
    """One configuration.

    Attributes:
        name: unique; "shape backend gpus: factors".
        shape: a key of ``qwen_shapes.QWEN``.
        backend: the one word.
        gpus: number of ranks.
        rows_per_gpu: sequences of a step on one GPU.
        micro_rows: sequences of one forward pass.
        length: tokens of a sequence.
        precision: of the forward pass.
        checkpointing: "none", "full", "selective".
        fused_loss: log-probabilities by chunks instead of float32 logits.
        compile: each block.
        keep_weights: FSDP2 does not free a block's weights after its forward pass.
        bucket_mb: of messages with gradients.
        scaling: "weak", "strong" or None: which curve the point belongs to.

    """

    name: str
    shape: str
    backend: str
    gpus: int
    rows_per_gpu: int = 8
    micro_rows: int = 2
    length: int = 2048
    precision: str = "bfloat16"
    checkpointing: str = "full"
    fused_loss: bool = False
    compile: bool = False
    keep_weights: bool = False
    bucket_mb: int = 25
    scaling: str | None = None
    device: str = "cuda"
    limit_s: float = 90.0
    warmup: int = 2
    steps: int = 3
    profile: bool = True


def ladder(shape: str, backend: str, gpus: int, micro: int) -> list[Setting]:
    """From the plain set-up to the tuned one, one factor at a time, each on top of the last."""
    now = Setting(f"{shape} {backend} {gpus}: plain", shape, backend, gpus)
    steps: list[tuple[str, dict[str, Any]]] = [
        ("fused loss", {"fused_loss": True}),
        (f"micro-batch {micro}", {"micro_rows": micro}),
    ]
    if backend != "zero3":  # its hooks on every module break the graph of a compiled block
        steps.append(("compile", {"compile": True, "limit_s": 150.0}))
    steps.append(("selective checkpointing", {"checkpointing": "selective"}))
    if backend == "fsdp2":
        steps.append(("weights kept", {"keep_weights": True}))
    else:
        steps.append(("larger messages", {"bucket_mb": 200}))
    found = [now]
    for word, change in steps:
        now = replace(now, name=f"{shape} {backend} {gpus}: + {word}", **change)
        found.append(now)
    return found


def curve(shape: str, backend: str, counts: list[int], tuned: dict[str, Any]) -> list[Setting]:
    """Weak scaling (the same rows a GPU) and strong scaling (the same rows in all)."""

    def point(kind: str, count: int, **changes: Any) -> Setting:
        name = f"{shape} {backend} {count}: {kind}"
        return Setting(name, shape, backend, count, scaling=kind, **{**tuned, **changes})

    weak = [point("weak", count) for count in counts]
    strong = []
    for count in counts[1:]:
        rows = max(1, weak[0].rows_per_gpu * counts[0] // count)
        micro = min(weak[0].micro_rows, rows)
        strong.append(point("strong", count, rows_per_gpu=rows, micro_rows=micro))
    return [*weak, *strong]


def plan(name: str, gpus: int) -> list[Setting]:
    """The configurations of a plan, the most wanted first."""
    counts = [n for n in (1, 2, 4, 8) if n <= gpus]
    good = {"fused_loss": True, "micro_rows": 4}
    plain_ddp = Setting(f"1.5B ddp {gpus}: plain", "1.5B", "ddp", gpus)
    plain_zero = Setting(f"7B zero3 {gpus}: plain", "7B", "zero3", gpus)
    offload = Setting(
        f"7B zero3-offload {gpus}: plain", "7B", "zero3-offload", gpus,
        limit_s=150.0, warmup=1, steps=2,
    )  # fmt: skip
    plans = {
        "first": [
            *ladder("7B", "fsdp2", gpus, 4),
            plain_ddp,
            plain_zero,
            offload,
            *curve("1.5B", "ddp", counts, good),
        ],
        "ladders": [
            *ladder("7B", "fsdp2", gpus, 4),
            *ladder("1.5B", "ddp", gpus, 8),
            *ladder("7B", "zero3", gpus, 4),
            offload,
        ],
        "curves": [
            *curve("1.5B", "ddp", counts, good),
            *curve("1.5B", "fsdp2", counts, good),
            *curve("7B", "fsdp2", [n for n in counts if n > 1], good),
            *curve("7B", "zero3", [n for n in counts if n > 1], good),
        ],
    }
    if name == "selftest":
        small = {"length": 32, "device": "cpu", "warmup": 1, "steps": 2, "precision": "float32"}
        return [
            replace(s, **small)
            for s in (
                Setting("tiny ddp 1: plain", "tiny", "ddp", 1, rows_per_gpu=4),
                Setting("tiny ddp 2: plain", "tiny", "ddp", 2, rows_per_gpu=4),
                Setting(
                    "tiny fsdp2 2: tuned", "tiny", "fsdp2", 2, rows_per_gpu=4, fused_loss=True,
                    checkpointing="selective", keep_weights=True,
                ),
                Setting("tiny zero3 2: tuned", "tiny", "zero3", 2, rows_per_gpu=4, fused_loss=True),
            )
        ]  # fmt: skip
    return plans[name]


class Bench:
    """Runs settings on free GPUs and keeps the file up to date."""

    def __init__(self, settings: list[Setting], gpus: int, budget_s: float, out: Path) -> None:
        self.waiting, self.free = list(settings), list(range(gpus))
        self.deadline = time.monotonic() + budget_s
        self.out, self.lock = out, threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.running: dict[str, Setting] = {}
        self.started = provenance.start(
            seeds=(0, 17),
            config={"settings": [asdict(s) for s in settings], "budget_s": budget_s},
            watched=("benchmarks", "nbkit"),
        )
        self.found: list[dict[str, Any]] = []

    def run(self) -> None:
        """Until nothing waits or time is up; configurations start in their order."""
        threads = []
        with self.changed:
            for setting in self.waiting:
                while len(self.free) < setting.gpus and self.running:
                    self.changed.wait()
                left = self.deadline - time.monotonic()
                if left < 15:
                    self._note({"setting": asdict(setting), "status": "skipped: no time left"})
                    continue
                taken = [self.free.pop(0) for _ in range(setting.gpus)]
                beside = sorted(self.running)
                self.running[setting.name] = setting
                thread = threading.Thread(
                    target=self._one, args=(setting, taken, beside, min(setting.limit_s, left))
                )
                thread.start()
                threads.append(thread)
        for thread in threads:
            thread.join()

    def _one(self, setting: Setting, taken: list[int], beside: list[str], limit: float) -> None:
        entry: dict[str, Any] = {"setting": asdict(setting), "beside": beside, "limit_s": limit}
        start = time.monotonic()
        try:
            entry.update(status="ok", result=self._ranks(setting, taken, limit))
        except RanksFailedError as error:
            late = time.monotonic() - start > limit
            entry.update(status="out of time" if late else "failed", error=str(error)[-6000:])
        entry["seconds_total"] = time.monotonic() - start
        with self.changed:
            self.free = sorted([*self.free, *taken])
            del self.running[setting.name]
            self._note(entry)
            self.changed.notify_all()

    def _ranks(self, setting: Setting, taken: list[int], limit: float) -> dict[str, Any]:
        environment = {"TOKENIZERS_PARALLELISM": "false"}
        if setting.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, taken))
            environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        results = run_ranks(
            scaling_worker.measure,
            setting.gpus,
            {**asdict(setting), "limit_s": limit},
            timeout_s=limit,
            preload=PRELOAD,
            environment=environment,
        )
        first: dict[str, Any] = results[0]
        return first

    def _note(self, entry: dict[str, Any]) -> None:
        self.found.append(entry)
        print(line_of(entry), flush=True)
        provenance.write_json(
            self.out,
            {
                "stamp": self.started.stamp(),
                "configurations": self.found,
                "summary": summary(self.found),
            },
        )


def line_of(entry: dict[str, Any]) -> str:
    """One line for the screen."""
    name = f"{entry['setting']['name']:42s}"
    result = entry.get("result")
    if result is None:
        tail = entry.get("error", "").strip().splitlines()[-1:] or [""]
        return f"{name} {entry['status']} {entry.get('seconds_total', 0):.0f} s {tail[0][:160]}"
    mfu = "" if result["mfu"] is None else f"MFU {result['mfu']:.1%} "
    memory = f"{result.get('peak_allocated_gib', 0):.1f} GiB "
    talk = result.get("communication", {})
    return (
        f"{name} {result['tokens_per_second_per_gpu']:9.0f} tokens/s/GPU {mfu}{memory}"
        f"communication {talk.get('share', 0):.0%} (exposed {talk.get('exposed_share', 0):.0%}) "
        f"{entry['seconds_total']:.0f} s"
    )


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of what was measured."""
    done = [e for e in found if e["status"] == "ok"]
    rate = {e["setting"]["name"]: e["result"]["tokens_per_second_per_gpu"] for e in done}
    over_plain, efficiency = {}, {}
    for entry in done:
        s = entry["setting"]
        plain = f"{s['shape']} {s['backend']} {s['gpus']}: plain"
        if plain in rate and s["name"] != plain:
            over_plain[s["name"]] = rate[s["name"]] / rate[plain]
        if s["scaling"]:
            points = [
                e for e in done
                if e["setting"]["scaling"] == "weak"
                and (e["setting"]["shape"], e["setting"]["backend"]) == (s["shape"], s["backend"])
            ]  # fmt: skip
            if points:
                base = min(points, key=lambda e: e["setting"]["gpus"])
                efficiency[s["name"]] = {
                    "to": base["setting"]["name"],
                    "efficiency": rate[s["name"]] / rate[base["setting"]["name"]],
                }
    return {"over_plain": over_plain, "scaling_efficiency": efficiency}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpus", type=int, default=4, help="GPUs of this machine to use")
    parser.add_argument("--plan", choices=("first", "ladders", "curves", "selftest"))
    parser.add_argument("--only", default="", help="comma-separated parts of names to keep")
    parser.add_argument("--budget", type=float, default=400.0, help="seconds for everything")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/scaling.json")
    options = parser.parse_args()
    name = options.plan or ("first" if options.device == "cuda" else "selftest")
    settings = plan(name, options.gpus)
    if options.only:
        parts = [part.strip() for part in options.only.split(",")]
        settings = [s for s in settings if any(part in s.name for part in parts)]
    gpus = 2 if name == "selftest" else options.gpus
    bench = Bench(settings, gpus, options.budget, options.out)
    bench.run()
    print(json.dumps(summary(bench.found), indent=1))
    if not any(entry["status"] == "ok" for entry in bench.found):
        sys.exit("no configuration came through; see the errors in the file")


if __name__ == "__main__":
    main()
