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
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from grpo_peer import Watch, tokenizer_of, train_with_trl  # noqa: E402
from qwen_shapes import QWEN  # noqa: E402

from nbkit.envs.arithmetic import PIECE, ArithmeticVocabulary, Sum  # noqa: E402
from nbkit.generate import clear  # noqa: E402
from nbkit.recipes.grpo_recipe import arithmetic_recipe, evaluate, verifier  # noqa: E402
from nbkit.runs import provenance  # noqa: E402
from nbkit.trainers.grpo import GRPOTrainer  # noqa: E402
from nbkit.trainers.grpo_scoring import Completion  # noqa: E402
from nbkit.trainers.grpo_variants import variant  # noqa: E402

SEEDS = (1, 2, 3)
UPDATES, PROMPTS, GROUP = 30, 16, 8
LEARNING_RATE = 1e-3
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


# --- learning, on a processor --------------------------------------------------------------------


def verify_for_trl(
    prompts: list[str], completions: list[str], completion_ids: list[list[int]],
    terms: list[list[int]], **_: Any,
) -> list[float]:  # fmt: skip
    """Our verifier, called as TRL calls a reward."""
    problems = [Sum(tuple(numbers)) for numbers in terms]
    written = [
        Completion(text, len(ids), ArithmeticVocabulary.eos_id not in ids)
        for text, ids in zip(completions, completion_ids, strict=True)
    ]
    return [reward.total for reward in verifier(problems, written)]


def learn(seed: int, updates: int, lessons: int) -> dict[str, Any]:
    """Both trainers from one taught model, one after the other."""
    vocabulary = ArithmeticVocabulary()
    plan = arithmetic_recipe(terms=(2, 2), lessons=lessons)
    limit = plan.config.max_new_tokens
    body = {**plan.body, "width": 48, "layers": 2}
    plan = type(plan)(**{**vars(plan), "body": body})
    taught = plan.taught(seed)
    weights = {name: x.clone() for name, x in taught.state_dict().items()}
    problems = plan.problems(2000, seed)
    held = plan.problems(400, 10_000 + seed, held_out=True)
    judge = {"max_new_tokens": limit, "seed": seed}
    result: dict[str, Any] = {
        "seed": seed,
        "before": evaluate(taught, vocabulary, held, **judge)["accuracy"],
    }
    config = variant(
        "grpo", updates=updates, prompts=PROMPTS, group_size=GROUP, max_new_tokens=limit,
        learning_rate=LEARNING_RATE, decay=False, warmup=0, betas=(0.9, 0.999), kl_coefficient=0.0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        taught, vocabulary, problems, verifier, config,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    start = time.process_time()
    history = trainer.run(progress=False)
    result["nbkit"] = {
        "seconds": time.process_time() - start,
        "rewards": [round(step["reward"], 4) for step in history],
        "after": evaluate(taught, vocabulary, held, **judge)["accuracy"],
    }
    taught.load_state_dict(weights)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        log = train_with_trl(
            taught, tokenizer_of(vocabulary, PIECE.pattern),
            [{"prompt": p.prompt, "terms": list(p.terms)} for p in problems],
            verify_for_trl, folder, watch,
            max_steps=updates, per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
            gradient_accumulation_steps=1, max_completion_length=limit, loss_type="grpo", beta=0.0,
            learning_rate=LEARNING_RATE, lr_scheduler_type="constant", weight_decay=0.0, seed=seed,
            use_cpu=True, bf16=False, gradient_checkpointing=False,
        )  # fmt: skip
        seconds = time.process_time() - start
    result["trl"] = {
        "seconds": sum(watch.seconds),
        "seconds with set-up": seconds,
        "rewards": [round(row["reward"], 4) for row in log],
        "after": evaluate(taught.eval(), vocabulary, held, **judge)["accuracy"],
    }
    return result


# --- speed, on a GPU -----------------------------------------------------------------------------


def fresh_model(dtype: str, attention: str, device: str, sizes: dict[str, Any]) -> Any:
    """A randomly initialised Qwen2, made on the device, the same weights each time.

    Transformers draws with standard deviation 0.02: logits of a fresh model are then near 0.6 in
    size, and its texts are near uniform over the vocabulary.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device):
            model = Qwen2ForCausalLM(Qwen2Config(**sizes, attn_implementation=attention))
    finally:
        torch.set_default_dtype(before)
    return model.eval()


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
    model = fresh_model(dtype, attention, device, sizes)
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
    model = fresh_model(dtype, "sdpa", device, sizes)
    config = variant(
        "grpo", updates=steps, prompts=8, group_size=8, max_new_tokens=new, learning_rate=1e-6,
        decay=False, kl_coefficient=0.0, micro_tokens=16 * (prompt + new),
    )  # fmt: skip
    rows = [Asked(text) for text in prompts_of(8 * steps, prompt, sizes["vocab_size"])]
    trainer = GRPOTrainer(
        model, vocabulary, rows, lambda _, done: [even_share(c.text) for c in done], config,
        generator=torch.Generator(device).manual_seed(0),
    )  # fmt: skip
    seconds = []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(steps):
        start = Watch._now()
        trainer.step()
        seconds.append(Watch._now() - start)
    history = trainer.history
    clear()
    return {
        "weights": dtype,
        "seconds": seconds,
        "gradient_norms": [step["gradient_norm"] for step in history],
        "lengths": [step["length"] for step in history],
        "seconds/generate": [step["seconds/generate"] for step in history],
        "ratio_error": [step["ratio_error"] for step in history],
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None,
    }


def samples_per_second(run: dict[str, Any]) -> float | None:
    """Median over the timed steps; None where a run has none."""
    timed = run["seconds"][FIRST - 1 :]
    return 64 / statistics.median(timed) if timed else None


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
    started = provenance.start(
        seeds=options.seeds,
        config={name: str(value) for name, value in vars(options).items()},
        watched=("nbkit", "benchmarks/grpo*.py"),
    )
    data: dict[str, Any] = {"device": options.device}

    def save() -> None:
        provenance.write_json(options.out, {"stamp": started.stamp(), **data})

    if options.device == "cuda" or options.speed:
        speed(data, save, options.device, small=options.device == "cpu")
    else:
        data["learning"] = []
        for seed in options.seeds:
            data["learning"].append(learn(seed, options.updates, options.lessons))
            save()
        ratios = [run["trl"]["seconds"] / run["nbkit"]["seconds"] for run in data["learning"]]
        data["speedup"] = {"each": ratios, "median": statistics.median(ratios)}
    save()
    print(json.dumps({k: v for k, v in data.items() if k in ("speedup", "trl")}, indent=1))


if __name__ == "__main__":
    main()
