"""Peak memory of training, sampling and RLHF on one GPU, beside what ``nbkit.memory`` predicts.

    python benchmarks/memory.py --out benchmarks/results/memory_h100.json     # one GPU, < 2 min
    python benchmarks/memory.py --device cpu --out /tmp/memory_cpu.json       # self-test, no peaks

Models are randomly initialised Qwen2 shapes in bfloat16; weights need no download to take their
room. A case runs twice: the first time sets up the optimiser and the libraries, the second is
measured with ``torch.cuda.max_memory_allocated``. The file: `stamp`, `device`, `cases` = list of
{name, kind, shape, settings, predicted: {part: bytes}, predicted_bytes, measured_bytes,
reserved_bytes, ratio, seconds}, `summary` (largest error by kind). It is written after each case.
On a CPU the same code runs on a tiny shape, and stored activations are counted instead of peaks.
"""

import argparse
import gc
import json
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from memory_cases import TINY, Case, cases, predict, tiny_cases  # noqa: E402
from memory_runs import RUNNERS, checkpointed, make_model  # noqa: E402
from side_by_side import start  # noqa: E402

from nbkit.generate import clear  # noqa: E402
from nbkit.logprobs import next_token_logprobs  # noqa: E402
from nbkit.memory import BF16, ModelShape  # noqa: E402
from nbkit.memory.peaks import block_activations, head_activations  # noqa: E402

GB = 1e9


def measure(case: Case, device: torch.device) -> dict[str, Any]:
    """Run a case twice; the second time is the measurement."""
    start = time.perf_counter()
    predicted = predict(case)
    record: dict[str, Any] = {
        "name": case.name, "kind": case.kind, "shape": asdict(case.shape),
        "settings": case.settings, "predicted": dict(predicted.parts),
        "predicted_bytes": predicted.total,
    }  # fmt: skip
    step = RUNNERS[case.kind](case, device)
    step()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        measured = torch.cuda.max_memory_allocated()
        record |= {
            "resting_bytes": before,
            "measured_bytes": measured,
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "ratio": predicted.total / measured,
        }
    else:
        step()
    return {**record, "seconds": round(time.perf_counter() - start, 2)}


def stored_bytes(shape: ModelShape, rows: int, length: int, *, checkpointing: bool) -> int:
    """Bytes that a forward pass really stores for the backward pass, each storage once."""
    model = make_model(shape, torch.device("cpu"))
    if checkpointing:
        checkpointed(model)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: list[Any] = []
    seen: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)  # so that no address is used twice
        return tensor

    ids = torch.randint(1, shape.vocabulary, (rows, length))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = model(input_ids=ids, use_cache=False).logits
        next_token_logprobs(logits, ids).mean()
    return sum(seen.values())


def self_test() -> dict[str, float]:
    """Stored bytes, counted and predicted, on a CPU: their ratio must be close to 1."""
    rows, length = 4, 64
    tokens = rows * length
    counted = stored_bytes(TINY, rows, length, checkpointing=False)
    expected = tokens * (
        TINY.layers * block_activations(TINY, BF16)
        + head_activations(TINY, BF16, scalar=False)
        + 2 * TINY.vocabulary
    )
    return {"counted": counted, "predicted": expected, "ratio": expected / counted}


def summarise(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest relative error of each kind."""
    summary: dict[str, Any] = {}
    for record in results:
        if "ratio" in record:
            error = abs(record["ratio"] - 1)
            summary[record["kind"]] = max(summary.get(record["kind"], 0.0), error)
    return {"largest_error": summary, "aim": 0.1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="only cases whose kind or name holds this")
    options = parser.parse_args()
    device = torch.device(options.device)
    chosen = cases() if device.type == "cuda" else tiny_cases()
    chosen = [c for c in chosen if options.only in c.kind or options.only in c.name]
    record = start(options.out, seeds=[0], config={"cases": [asdict(c) for c in chosen]})
    results: list[dict[str, Any]] = []
    test = self_test()
    print(f"self-test: stored bytes predicted / counted = {test['ratio']:.4f}", flush=True)
    for case in chosen:
        try:
            found = measure(case, device)
        except Exception as error:
            traceback.print_exc()
            found = {
                "name": case.name,
                "kind": case.kind,
                "error": f"{type(error).__name__}: {error}",
            }
        clear()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        results.append(found)
        said = f"{found['predicted_bytes'] / GB:.2f} GB" if "predicted_bytes" in found else ""
        if "measured_bytes" in found:
            said += f" predicted, {found['measured_bytes'] / GB:.2f} GB measured"
            said += f", ratio {found['ratio']:.3f}"
        print(f"{case.kind}: {case.name}: {found.get('error', said)}", flush=True)
        record.finish(
            {
                "device": str(device), "self_test": test, "cases": results,
                "summary": summarise(results),
            }
        )  # fmt: skip
    print(json.dumps(summarise(results)))


if __name__ == "__main__":
    main()
