"""GRPO on a GPU: TRL's set-ups probed, then both trainers timed on a Qwen2 of random weights."""

import tempfile
import traceback
from typing import Any

import torch
from grpo_peer import Watch, tokenizer_of, train_with_trl
from qwen_shapes import QWEN, fresh_model
from side_by_side import seconds, spread

from nbkit.generate import clear
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.variants import variant

HALF_BILLION = {
    **QWEN["0.5B"],
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
PROMPT, NEW, STEPS, FIRST = 128, 256, 8, 3
# TRL's set-ups on a GPU, its defaults first: type of the weights, attention, changes to GRPOConfig
PROBES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "defaults, bf16 weights": ("bfloat16", "sdpa", {}),
    "bf16 weights, eager attention": ("bfloat16", "eager", {}),
    "bf16 weights, no checkpointing": ("bfloat16", "sdpa", {"gradient_checkpointing": False}),
    "float32 weights, bf16 autocast": ("float32", "sdpa", {}),
    "float32 weights, bf16 autocast, no checkpointing": (
        "float32", "sdpa", {"gradient_checkpointing": False},
    ),
    "float32 throughout": ("float32", "sdpa", {"bf16": False}),
}  # fmt: skip


class Words:
    """A vocabulary of numbered words, as large as Qwen's: ``t0 t1 …``."""

    pad_id, eos_id, bos_id = 0, 1, 1

    def __init__(self, size: int) -> None:
        self.tokens = [f"t{i} " for i in range(size)]

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return [int(word[1:]) for word in text.split()]

    def decode(self, ids: Any) -> str:
        """The words."""
        return "".join(self.tokens[i] for i in ids)


class Asked:
    """A prompt and nothing else."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt


def even_share(text: str) -> float:
    """A reward that differs from text to text: the share of words with an even number."""
    words = text.split()
    return sum(int(word[1:]) % 2 == 0 for word in words) / max(1, len(words))


def prompts_of(count: int, length: int, size: int, *, padded: bool = False) -> list[str]:
    """Random prompts; padded: every second one is shorter by a quarter."""
    draw = torch.Generator().manual_seed(1)
    rows = torch.randint(2, size, (count, length), generator=draw).tolist()
    return [
        "".join(f"t{i} " for i in (row[: length * 3 // 4] if padded and n % 2 else row))
        for n, row in enumerate(rows)
    ]


def run_trl(
    setup: str, tokenizer: Any, sizes: dict[str, Any], device: str, *,
    steps: int, new: int, prompt: int, padded: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Some steps of TRL's trainer; an error is part of the result."""
    dtype, attention, changes = PROBES[setup]
    model = fresh_model(sizes, getattr(torch, dtype), device, attn_implementation=attention)
    rows = prompts_of(8 * steps, prompt, sizes["vocab_size"], padded=padded)
    watch, log, error = Watch(), [], ""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        on_cpu = {"use_cpu": True, "bf16": False} if device == "cpu" else {}
        settings = {
            "max_steps": steps, "per_device_train_batch_size": 16, "num_generations": 8,
            "gradient_accumulation_steps": 4, "max_completion_length": new, "loss_type": "grpo",
            "beta": 0.0, "learning_rate": 1e-6, "lr_scheduler_type": "constant", "seed": 0,
        }  # fmt: skip
        try:
            log = train_with_trl(
                model, tokenizer, [{"prompt": text} for text in rows],
                lambda completions, **_: [even_share(text) for text in completions],
                folder, watch, **{**settings, **changes, **on_cpu},
            )  # fmt: skip
        except Exception as problem:  # a peer that fails is a finding, and is kept whole
            error = "".join(traceback.format_exception_only(problem)).strip()
    norms = [row["grad_norm"] for row in log if "grad_norm" in row]
    finite = bool(norms) and all(n == n and abs(n) < float("inf") for n in norms)
    return {
        "setup": setup,
        "healthy": finite and not watch.sick and not error,
        "padded prompts": padded,
        "error": error,
        "gradient_norms": [str(n) if n != n else n for n in norms],
        "losses": [row.get("loss") for row in log],
        "parameters without a finite gradient": len(watch.sick),
        "first of them": watch.sick[:3],
        "last of them": watch.sick[-3:],
        "seconds": watch.seconds,
        "lengths": [row.get("completions/mean_length") for row in log],
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None,
    }


def run_nbkit(
    dtype: str, vocabulary: Words, sizes: dict[str, Any], device: str, *,
    steps: int, new: int, prompt: int,
) -> dict[str, Any]:  # fmt: skip
    """The same steps of our trainer."""
    model = fresh_model(sizes, getattr(torch, dtype), device, attn_implementation="sdpa")
    config = variant(
        "grpo", updates=steps, prompts=8, group_size=8, max_new_tokens=new, learning_rate=1e-6,
        decay=False, kl_coefficient=0.0, micro_tokens=16 * (prompt + new),
    )  # fmt: skip
    rows = [Asked(text) for text in prompts_of(8 * steps, prompt, sizes["vocab_size"])]
    trainer = GRPOTrainer(
        model, vocabulary, rows, lambda _, done: [even_share(c.text) for c in done], config,
        generator=torch.Generator(device).manual_seed(0),
    )  # fmt: skip
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    taken = [seconds(trainer.step) for _ in range(steps)]
    history = trainer.history
    clear()
    return {
        "weights": dtype,
        "seconds": taken,
        "gradient_norms": [step["gradient_norm"] for step in history],
        "lengths": [step["length"] for step in history],
        "seconds/generate": [step["seconds/generate"] for step in history],
        "ratio_error": [step["ratio_error"] for step in history],
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None,
    }


def samples_per_second(run: dict[str, Any]) -> float | None:
    """Median over the timed steps; None where a run has none."""
    timed = run["seconds"][FIRST - 1 :]
    return 64 / spread(timed).median if timed else None


def speed(data: dict[str, Any], save: Any, device: str, small: bool) -> None:
    """Probes, then the timed runs; `data` is filled and saved as they come."""
    sizes = dict(HALF_BILLION)
    new, prompt, steps = NEW, PROMPT, STEPS
    if small:
        sizes |= {"hidden_size": 56, "num_hidden_layers": 2, "intermediate_size": 96}
        sizes |= {"vocab_size": 512}
        new, prompt, steps = 8, 16, 3
    words = Words(sizes["vocab_size"])
    data["shape"] = {**sizes, "prompt": prompt, "new": new, "completions": 64, "steps": steps}
    data["nbkit"] = []
    for dtype in ("bfloat16", "float32") if device == "cuda" else ("float32",):
        run = run_nbkit(dtype, words, sizes, device, steps=steps, new=new, prompt=prompt)
        data["nbkit"].append({**run, "samples_per_second": samples_per_second(run)})
        save()
    tokenizer = tokenizer_of(words, r"t\d+ ")
    data["probes"] = []
    for padded in (False, True):
        for setup in PROBES:
            probe = run_trl(
                setup, tokenizer, sizes, device, steps=1, new=min(new, 32), prompt=prompt,
                padded=padded,
            )  # fmt: skip
            data["probes"].append(probe)
            save()
            verdict = "healthy" if probe["healthy"] else f"sick: {probe['error'][:100]}"
            print(f"{setup}, padded {padded}: {verdict}, {probe['gradient_norms']}", flush=True)
            if padded and probe["healthy"]:
                break  # padding is the question here, and the defaults answer it
    healthy = [probe["setup"] for probe in data["probes"] if probe["healthy"]]
    if not healthy:
        data["trl"] = None
        return
    run = run_trl(healthy[0], tokenizer, sizes, device, steps=steps, new=new, prompt=prompt)
    data["trl"] = {**run, "samples_per_second": samples_per_second(run)}
    if data["trl"]["samples_per_second"]:
        data["speedup"] = {
            ours["weights"]: ours["samples_per_second"] / data["trl"]["samples_per_second"]
            for ours in data["nbkit"]
        }
