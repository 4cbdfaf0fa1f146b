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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402
from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from nbkit.generate import clear, generate  # noqa: E402
from nbkit.logprobs import next_token_logprobs  # noqa: E402
from nbkit.memory import (  # noqa: E402
    BF16,
    SHAPES,
    Memory,
    ModelShape,
    Training,
    four_models,
    generation_peak,
    training_peak,
)
from nbkit.memory.peaks import block_activations, head_activations  # noqa: E402
from nbkit.runs import provenance  # noqa: E402
from nbkit.text.policies_value import ScalarModel  # noqa: E402
from nbkit.trainers.reward_model import reward_function  # noqa: E402
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer  # noqa: E402

TINY = ModelShape(2, 64, 176, 4, 2, 16, 300, tied=True, qkv_bias=True)
GB = 1e9


@dataclass(frozen=True)
class Case:
    """One measurement."""

    name: str
    kind: str
    shape: ModelShape
    settings: dict[str, Any]


def cases() -> list[Case]:
    """Three sizes and more of each kind, from a few GB to near the whole card."""
    small, middle, large = (SHAPES[f"qwen2.5-{size}"] for size in ("0.5b", "1.5b", "3b"))
    step, sample, four = "training step", "generation", "four models"
    return [
        Case("0.5B, 8 × 1,024", step, small, {"rows": 8, "length": 1024}),
        Case("0.5B, 16 × 1,024, checkpointing", step, small,
             {"rows": 16, "length": 1024, "checkpointing": True}),
        Case("1.5B, 4 × 2,048", step, middle, {"rows": 4, "length": 2048}),
        Case("1.5B, 8 × 2,048", step, middle, {"rows": 8, "length": 2048}),
        Case("1.5B, 8 × 2,048, checkpointing", step, middle,
             {"rows": 8, "length": 2048, "checkpointing": True}),
        Case("3B, 4 × 1,024", step, large, {"rows": 4, "length": 1024}),
        Case("3B, 8 × 2,048, checkpointing", step, large,
             {"rows": 8, "length": 2048, "checkpointing": True}),
        Case("0.5B, 256 × 1,024", sample, small, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("1.5B, 256 × 1,024", sample, middle, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("3B, 256 × 1,024", sample, large, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("0.5B × 4, 32 × 512", four, small,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8}),
        Case("1.5B × 4, 32 × 512", four, middle,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8}),
        Case("3B × 4, 32 × 512, checkpointing", four, large,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8,
              "checkpointing": True}),
    ]  # fmt: skip


def tiny_cases() -> list[Case]:
    """The same code at a size for a CPU."""
    return [
        Case("tiny", "training step", TINY, {"rows": 2, "length": 32}),
        Case("tiny, checkpointing", "training step", TINY,
             {"rows": 2, "length": 32, "checkpointing": True}),
        Case("tiny", "generation", TINY, {"rows": 4, "prompt": 8, "new_tokens": 8}),
        Case("tiny × 4", "four models", TINY,
             {"rows": 4, "prompt": 8, "new_tokens": 8, "micro_rows": 2}),
    ]  # fmt: skip


def make_model(shape: ModelShape, device: torch.device) -> Any:
    """A random Qwen2 of this shape, made on the device."""
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=4096,
        attention_dropout=0.0,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            model = Qwen2ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    assert sum(p.numel() for p in model.parameters()) == shape.parameters
    return model.eval()


def checkpointed(module: Any) -> None:
    """Recompute blocks in the backward pass; transformers does so in training mode only."""
    module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module.train()


class Numbers:
    """A vocabulary whose words are its ids; nothing it samples is an EOS."""

    pad_id, eos_id = 0, -1

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids))


@dataclass(frozen=True)
class Numbered:
    """A problem: a prompt of random ids."""

    prompt: str


def predict(case: Case) -> Memory:
    """What the calculator says."""
    settings = dict(case.settings)
    training = Training(BF16, checkpointing=settings.pop("checkpointing", False))
    if case.kind == "training step":
        return training_peak(case.shape, training, **settings)
    if case.kind == "generation":
        return generation_peak(case.shape, **settings)
    whole = four_models(case.shape, training, **settings)
    return whole.phases[whole.worst]


def run_training(case: Case, device: torch.device) -> Callable[[], None]:
    """A gradient step of all weights."""
    model = make_model(case.shape, device)
    if case.settings.get("checkpointing"):
        checkpointed(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    shape = (case.settings["rows"], case.settings["length"])
    ids = torch.randint(1, case.shape.vocabulary, shape, device=device)

    def step() -> None:
        logits = model(input_ids=ids, use_cache=False).logits
        loss = -next_token_logprobs(logits, ids).mean()
        del logits
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def run_generation(case: Case, device: torch.device) -> Callable[[], None]:
    """All completions at once."""
    model = make_model(case.shape, device)
    settings = case.settings
    ids = torch.randint(1, case.shape.vocabulary, (settings["rows"], settings["prompt"]))

    def step() -> None:
        clear(model)
        generate(model, ids.tolist(), max_new_tokens=settings["new_tokens"], seeds=0)

    return step


def run_four(case: Case, device: torch.device) -> Callable[[], None]:
    """A whole update of ``RLHFTrainer``."""
    settings, shape = case.settings, case.shape
    policy, reference = make_model(shape, device), make_model(shape, device)
    scored = ScalarModel.from_causal(policy)
    value = ScalarModel.from_causal(policy)
    reference.requires_grad_(False)
    scored.requires_grad_(False)
    if settings.get("checkpointing"):
        checkpointed(policy)
        checkpointed(value.body)
    vocabulary = Numbers()
    source = torch.Generator().manual_seed(0)
    prompts = torch.randint(
        1, shape.vocabulary, (settings["rows"], settings["prompt"]), generator=source
    )
    length = settings["prompt"] + settings["new_tokens"]
    config = RLHFConfig(
        updates=2,
        prompts=settings["rows"],
        max_new_tokens=settings["new_tokens"],
        epochs=1,
        minibatches=1,
        learning_rate=1e-6,
        micro_tokens=settings["micro_rows"] * length,
        release_engine=True,
    )
    trainer = RLHFTrainer(
        policy,
        vocabulary,
        [Numbered(" ".join(map(str, row))) for row in prompts.tolist()],
        reward_function(scored, vocabulary, batch_size=settings["micro_rows"]),
        config,
        reference=reference,
        value=value,
        generator=source,
    )
    return lambda: trainer.step() and None


RUNNERS = {
    "training step": run_training,
    "generation": run_generation,
    "four models": run_four,
}


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
    stamp = provenance.start(
        seeds=[0], config={"cases": [asdict(c) for c in chosen]},
        watched=("nbkit", "benchmarks/*.py"),
    )  # fmt: skip
    results: list[dict[str, Any]] = []
    test = self_test()
    print(f"self-test: stored bytes predicted / counted = {test['ratio']:.4f}", flush=True)
    for case in chosen:
        try:
            record = measure(case, device)
        except Exception as error:
            traceback.print_exc()
            record = {
                "name": case.name,
                "kind": case.kind,
                "error": f"{type(error).__name__}: {error}",
            }
        clear()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        results.append(record)
        said = f"{record['predicted_bytes'] / GB:.2f} GB" if "predicted_bytes" in record else ""
        if "measured_bytes" in record:
            said += f" predicted, {record['measured_bytes'] / GB:.2f} GB measured"
            said += f", ratio {record['ratio']:.3f}"
        print(f"{case.kind}: {case.name}: {record.get('error', said)}", flush=True)
        provenance.write_json(
            options.out,
            {
                "stamp": stamp.stamp(), "device": str(device), "self_test": test,
                "cases": results, "summary": summarise(results),
            },
        )  # fmt: skip
    print(json.dumps(summarise(results)))


if __name__ == "__main__":
    main()
