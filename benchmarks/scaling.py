"""Policy updates on one or several GPUs: speed, MFU, memory, where the time goes, a factor a time.

    python benchmarks/scaling.py --plan one --gpus 1 --budget 450 --out results/scaling_h200.json
    python benchmarks/scaling.py --device cpu --plan selftest         # two gloo processes, minutes

Randomly initialised Qwen2 shapes at sequence 2048, one minibatch a step, float32 weights in the
optimiser. Each configuration has processes and a limit of its own; the next one's processes start
and import while this one runs, and touch no GPU before it has ended. The file is written after
each. Configurations that need fewer GPUs than there are run side by side, and say so.

The file: `stamp`, `configurations` = [{setting, status, seconds_total, beside, result | error}],
`summary` (gains by step of each ladder, ratios to the plain set-up of the same shape and back-end,
weak and strong scaling).
"""

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALLOCATOR = "expandable_segments:True"  # as nbkit/cluster/driver/diagnosis.sh sets it for jobs
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import scaling_worker  # noqa: E402
import side_by_side  # noqa: E402
from scaling_plans import Setting, plan  # noqa: E402

from nbkit.parallel.launch import RanksFailedError, run_ranks  # noqa: E402

START_S = 90.0  # of processes: imports, on a slow disk


class Bench:
    """Runs settings on free GPUs and keeps the file up to date."""

    def __init__(self, settings: list[Setting], gpus: int, budget_s: float, out: Path) -> None:
        self.waiting, self.free = list(settings), list(range(gpus))
        self.deadline = time.monotonic() + budget_s
        self.changed = threading.Condition()
        self.running: dict[str, Setting] = {}
        config = {"settings": [asdict(s) for s in settings], "budget_s": budget_s}
        self.record = side_by_side.start(out, seeds=(0, 17), config=config)
        self.found: list[dict[str, Any]] = []

    def run(self) -> None:
        """Until nothing waits or time is up; configurations start in their order."""
        with tempfile.TemporaryDirectory() as folder:
            ahead: Job | None = None
            threads: list[threading.Thread] = []
            with self.changed:
                while self.waiting or ahead:
                    job = ahead or self._next(Path(folder))
                    ahead = None
                    if job is None:
                        break
                    if self._blocked(job.setting):
                        ahead = job
                        self.changed.wait()
                        continue
                    if not self._wanted(job.setting):
                        job.cancel()
                        continue
                    threads.append(self._go(job))
                    ahead = self._next(Path(folder))  # imports while the other one works
            for thread in threads:
                thread.join()

    def _next(self, folder: Path) -> "Job | None":
        while self.waiting:
            setting = self.waiting.pop(0)
            left = self.deadline - time.monotonic()
            if left < 15:
                self._note({"setting": asdict(setting), "status": "skipped: no time left"})
                continue
            return Job(setting, folder, left)
        return None

    def _blocked(self, setting: Setting) -> bool:
        """Whether something that runs must end first."""
        return setting.only_after_failure_of in self.running or (
            len(self.free) < setting.gpus and bool(self.running)
        )

    def _wanted(self, setting: Setting) -> bool:
        """Whether it stands in for nothing, or for one that failed."""
        other = setting.only_after_failure_of
        if other is None:
            return True
        ends = [e["status"] for e in self.found if e["setting"]["name"] == other]
        return bool(ends) and ends[-1] in ("failed", "out of time")

    def _go(self, job: "Job") -> threading.Thread:
        setting = job.setting
        taken = [self.free.pop(0) for _ in range(setting.gpus)]
        beside = sorted(self.running)
        self.running[setting.name] = setting
        limit = min(setting.limit_s, self.deadline - time.monotonic())
        thread = threading.Thread(target=self._one, args=(job, taken, beside, limit))
        thread.start()
        return thread

    def _one(self, job: "Job", taken: list[int], beside: list[str], limit: float) -> None:
        entry: dict[str, Any] = {"setting": asdict(job.setting), "beside": beside}
        start = time.monotonic()
        entry.update(job.go(taken, limit), limit_s=limit)
        entry["seconds_total"] = time.monotonic() - start
        with self.changed:
            self.free = sorted([*self.free, *taken])
            del self.running[job.setting.name]
            self._note(entry)
            self.changed.notify_all()

    def _note(self, entry: dict[str, Any]) -> None:
        self.found.append(entry)
        print(line_of(entry), flush=True)
        self.record.finish({"configurations": self.found, "summary": summary(self.found)})


class Job:
    """The processes of one configuration: they import at once and wait for GPUs to be named."""

    def __init__(self, setting: Setting, folder: Path, left_s: float) -> None:
        self.setting = setting
        self.gate = Path(tempfile.mkdtemp(dir=folder)) / "go"
        self.end: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._run, args=(left_s + START_S,))
        self.thread.start()

    def go(self, gpus: list[int], limit_s: float) -> dict[str, Any]:
        """Open the gate and wait: status, and the first rank's result or the error."""
        write(self.gate, {"gpus": gpus, "limit_s": limit_s})
        self.thread.join()
        return self.end

    def cancel(self) -> None:
        """Send the processes away."""
        write(self.gate, {"cancel": True})
        self.thread.join()

    def _run(self, timeout_s: float) -> None:
        environment = {"TOKENIZERS_PARALLELISM": "false"}
        try:
            results = run_ranks(
                scaling_worker.measure_when_told,
                self.setting.gpus,
                asdict(self.setting),
                str(self.gate),
                timeout_s=timeout_s,
                start="spawn",
                environment=environment,
            )
            self.end = {"status": "ok", "result": results[0]}
        except RanksFailedError as error:
            late = f"exit code {scaling_worker.LATE}" in str(error)
            status = "out of time" if late else "failed"
            text = str(error).replace(f"{ROOT}{os.sep}", "")
            text = re.sub(r'"[^"]*/site-packages/', '"', text)
            self.end = {"status": status, "error": text[-6000:]}


def write(path: Path, value: dict[str, Any]) -> None:
    """In one piece: whoever waits for the file sees all of it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.rename(path)


def line_of(entry: dict[str, Any]) -> str:
    """One line for the screen."""
    name = f"{entry['setting']['name']:42s}"
    result = entry.get("result")
    if result is None:
        tail = entry.get("error", "").strip().splitlines()[-1:] or [""]
        return f"{name} {entry['status']} {entry.get('seconds_total', 0):.0f} s {tail[0][:160]}"
    if "tokens_per_second_per_gpu" not in result:
        return f"{name} {json.dumps(result.get('screen', {}))} {entry['seconds_total']:.0f} s"
    mfu = "" if result["mfu"] is None else f"MFU {result['mfu']:.1%} "
    memory = f"{result.get('peak_allocated_gib', 0):.1f} GiB "
    talk = result.get("kernels", {})
    return (
        f"{name} {result['tokens_per_second_per_gpu']:9.0f} tokens/s/GPU {mfu}{memory}"
        f"communication {talk.get('communication_share', 0):.0%} "
        f"(exposed {talk.get('communication_exposed_share', 0):.0%}) "
        f"{entry['seconds_total']:.0f} s"
    )


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of what was measured."""
    done = [e for e in found if e["status"] == "ok" and "tokens_per_second_per_gpu" in e["result"]]
    rate = {e["setting"]["name"]: e["result"]["tokens_per_second_per_gpu"] for e in done}
    over_plain, over_last, efficiency = {}, {}, {}
    last: dict[str, str] = {}  # of each ladder, the newest step that came through
    for entry in done:
        s = entry["setting"]
        family = s["name"].split(":")[0]
        plain = f"{family}: plain"
        if plain in rate and s["name"] != plain:
            over_plain[s["name"]] = rate[s["name"]] / rate[plain]
        if ": + " in s["name"] and family in last:
            over_last[s["name"]] = {
                "to": last[family],
                "gain": rate[s["name"]] / rate[last[family]],
            }
        last[family] = s["name"]
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
    return {
        "over_plain": over_plain,
        "over_the_step_before": over_last,
        "scaling_efficiency": efficiency,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpus", type=int, help="GPUs of this machine to use; 1")
    parser.add_argument("--plan", choices=("one", "two", "ladders", "curves", "selftest"))
    parser.add_argument("--only", default="", help="comma-separated parts of names to keep")
    parser.add_argument("--budget", type=float, default=450.0, help="seconds for everything")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/scaling.json")
    options = parser.parse_args()
    # Read when the processes import torch, and activations of many sizes must share one pool.
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):  # its name has changed
        os.environ.setdefault(variable, ALLOCATOR)
    name = options.plan or ("one" if options.device == "cuda" else "selftest")
    gpus = options.gpus or (2 if name == "selftest" else 1)
    settings = plan(name, gpus)
    if options.only:
        parts = [part.strip() for part in options.only.split(",")]
        settings = [s for s in settings if any(part in s.name for part in parts)]
    bench = Bench(settings, gpus, options.budget, options.out)
    bench.run()
    print(json.dumps(summary(bench.found), indent=1))
    if not any(entry["status"] == "ok" for entry in bench.found):
        sys.exit("no configuration came through; see the errors in the file")


if __name__ == "__main__":
    main()
