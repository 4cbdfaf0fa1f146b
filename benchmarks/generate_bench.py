"""The sections of `benchmarks/generate.py`: their limits, their models, and the file that grows."""

import json
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from generate_parts import release
from qwen_shapes import QWEN, fresh_model

from bookkit.authoring.study import Study

STEP_AIMS = {"0.5B": 4.0, "1.5B": 3.0, "7B": 1.5}  # times the floor, at batch 64
SPEED_AIM = 30.0  # times transformers.generate, batch 64, 0.5B


class OutOfTimeError(Exception):
    """A section ran over its limit."""


class Bench:
    """Models on demand, sections with limits, and the file that grows."""

    def __init__(self, device: str, record: Study, budget: float) -> None:
        self.device, self.record = device, record
        self.deadline = time.perf_counter() + budget
        self.models: dict[str, Any] = {}
        self.data: dict[str, Any] = {"device": device, "sections": {}, "summary": {}}

    def model(self, name: str, dtype: torch.dtype | None = None) -> Any:
        """A randomly initialised model; one at a time on the device."""
        if name not in self.models:
            self.drop()
            plain = torch.float32 if self.device == "cpu" else torch.bfloat16
            model = fresh_model(QWEN[name], dtype or plain, self.device)
            self.models[name] = model.requires_grad_(False)
        return self.models[name]

    def drop(self) -> None:
        """Free the models and all that the engine keeps for them."""
        for model in self.models.values():
            release(model)
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
        self.record.finish(self.data)


def _alarm(*_: Any) -> None:
    raise OutOfTimeError


def short(result: Any) -> str:
    """One line of a result for the log."""
    text = json.dumps(result, default=str)
    return text if len(text) < 1500 else text[:1500] + " …"


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
