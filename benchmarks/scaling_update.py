"""Policy updates of one configuration: build, warm up, time, profile. Plain data out."""

import gc
import os
import statistics
import time
from contextlib import contextmanager
from typing import Any

import torch
from qwen_shapes import QWEN, fresh_model
from scaling_kernels import profiled, wait
from torch import Tensor

from nbkit.parallel import ParallelConfig, connect, zero
from nbkit.parallel.flops import flops_per_token, matrix_weights, peak_flops
from nbkit.parallel.scoring import attach_scoring
from nbkit.runs.provenance import processor_name
from nbkit.trainers.grpo.update import grpo_loss
from nbkit.trainers.grpo.variants import variant

LOSS = variant("grpo", kl_coefficient=0.0, aggregation="token-mean")


def measure(setting: dict[str, Any], world: Any) -> dict[str, Any]:
    """Policy updates; every rank returns the same figures."""
    device = setting["device"]
    began = time.perf_counter()
    parallel = connected(setting, world)
    shape = prepare(parallel, setting, world.device)
    prepared = time.perf_counter()
    rows = make_rows(setting, shape, world)
    clock = Clock(world.device)
    warm = [take_step(parallel, rows, setting, clock)["seconds"] for _ in range(setting["warmup"])]
    warmed = time.perf_counter()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = []
    for _ in range(setting["steps"]):
        taken = take_step(parallel, rows, setting, clock)
        steps.append({**taken, "seconds": parallel.largest(taken["seconds"])})
    memory = memory_gib(parallel.largest, device)
    traffic: dict[str, Any] = {}
    if setting["profile"]:
        parallel.barrier()
        traffic = profiled(lambda: take_step(parallel, rows, setting, clock)["seconds"], device)
    return {
        **figures(setting, shape, world.size, steps),
        **memory,
        **traffic,
        "steps": steps,
        "warmup_seconds": warm,
        "setup_seconds": {"prepare": prepared - began, "warm up": warmed - prepared},
    }


def connected(setting: dict[str, Any], world: Any) -> Any:
    """The back-end of a setting."""
    low = setting["low_sums"] and setting["precision"] == "bfloat16"
    if setting["backend"].startswith("zero") and low:
        sum_in_bfloat16()
    if setting["backend"].endswith("offload") and setting["device"] == "cuda":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world.size))
    return connect(
        ParallelConfig(
            backend=setting["backend"],
            precision=setting["precision"],
            checkpointing=setting["checkpointing"],
            compile=setting["compile"],
            reshard_after_forward=not setting["keep_weights"],
            bucket_mb=setting["bucket_mb"],
        ),
        world,
    )


def sum_in_bfloat16() -> None:
    """Leave DeepSpeed's own choice of where gradients add up, which our back-end overrides."""
    ours = zero.deepspeed_config

    def theirs(config: ParallelConfig) -> dict[str, Any]:
        settings = ours(config)
        settings["data_types"] = {"grad_accum_dtype": "bf16"}
        settings["communication_data_type"] = "bf16"
        return settings

    zero.deepspeed_config = theirs  # type: ignore[assignment]


def prepare(parallel: Any, setting: dict[str, Any], device: torch.device) -> Any:
    """Build the model and hand it to the back-end; return its configuration."""
    model, shape = build(setting, device)
    parallel.prepare(model, lambda p: torch.optim.AdamW(p, lr=1e-6, weight_decay=0.0, fused=True))
    del model
    gc.collect()
    if setting["device"] == "cuda":
        torch.cuda.empty_cache()
    return shape


def build(setting: dict[str, Any], device: torch.device) -> tuple[Any, Any]:
    """A randomly initialised Qwen2 on the device, the same on every rank, and its configuration."""
    # DeepSpeed keeps bfloat16 weights beside float32 ones of its own; the others hold float32.
    low = setting["backend"].startswith("zero") and setting["precision"] == "bfloat16"
    dtype = torch.bfloat16 if low else torch.float32
    model = fresh_model(QWEN[setting["shape"]], dtype, device, use_cache=False).train()
    return attach_scoring(model, compiled=setting["compiled_loss"]), model.config


def make_rows(setting: dict[str, Any], shape: Any, world: Any) -> list[dict[str, Tensor]]:
    """This rank's micro-batches: ids (R, L), mask (R, L-1) of completions, advantages (R, L-1)."""
    generator = torch.Generator().manual_seed(17 + world.rank)
    length, prompt = setting["length"], setting["length"] // 4
    found = []
    for _ in range(setting["rows_per_gpu"] // setting["micro_rows"]):
        ids = torch.randint(
            2, shape.vocab_size, (setting["micro_rows"], length), generator=generator
        )
        mask = torch.zeros(ids.shape[0], length - 1, dtype=torch.bool)
        mask[:, prompt:] = True
        advantages = torch.randn(ids.shape[0], 1, generator=generator) * mask
        part = {"ids": ids, "mask": mask, "advantages": advantages}
        found.append({name: value.to(world.device) for name, value in part.items()})
    return found


def take_step(
    parallel: Any, rows: list[dict[str, Tensor]], setting: dict[str, Any], clock: "Clock"
) -> dict[str, float]:
    """One policy update: seconds, seconds of its parts, loss and gradient norm."""
    clock.clear()
    start = clock.now()
    tokens, sequences = parallel.total(
        sum(part["mask"].sum() for part in rows), sum(len(part["ids"]) for part in rows)
    )
    loss = torch.zeros((), device=parallel.world.device)
    for part in parallel.parts(rows):
        with clock.part("forward"):
            logp = logprobs(parallel.model, part["ids"], setting["fused_loss"])
            value = grpo_loss(
                logp,
                logp.detach(),  # the first step on a batch: policy and sampler agree
                part["advantages"],
                part["mask"],
                LOSS,
                total_tokens=tokens,
                total_sequences=sequences,
            )
        with clock.part("backward"):
            parallel.backward(value)
        loss += value.detach()
    with clock.part("step"):
        norm = parallel.step(1.0)
    seconds = clock.now() - start
    whole = parallel.total(loss)[0]
    return {"seconds": seconds, **clock.seconds(), "loss": whole, "gradient_norm": norm}


def logprobs(model: Any, ids: Tensor, fused: bool) -> Tensor:
    """(R, L-1) of the ids from the second on: by chunks, or the plain way in float32."""
    if fused:
        return model(input_ids=ids, score=ids)
    logits = model(input_ids=ids).logits[:, :-1].float()
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]


def figures(setting: dict[str, Any], shape: Any, size: int, steps: list[Any]) -> dict[str, Any]:
    """Tokens a second and a GPU, and MFU with what it was computed from."""
    tokens = setting["rows_per_gpu"] * setting["length"]
    seconds = statistics.median(step["seconds"] for step in steps)
    operations = flops_per_token(shape, setting["length"])
    peak = peak_flops(device_name(torch.device(setting["device"])))
    rate = tokens / seconds
    return {
        "seconds": seconds,
        "tokens_per_second_per_gpu": rate,
        "tokens_per_step": tokens * size,
        "flops_per_token": operations,
        "flops_formula": "6 N + 6 L d T; N without the embedding lookup, causal attention",
        "matrix_weights": matrix_weights(shape),
        "mfu": None if peak is None else rate * operations / peak,
        "peak_flops": peak,
        "split": {
            name: statistics.median(step[name] for step in steps)
            for name in ("forward", "backward", "step")
        },
    }


def memory_gib(largest: Any, device: str) -> dict[str, float]:
    """The largest of any rank: held by tensors, and taken from the device; and its retries.

    A retry is an allocation that had to hand unused memory back first, for which the GPU waits.
    """
    if device != "cuda":
        return {}
    return {
        "peak_allocated_gib": largest(torch.cuda.max_memory_allocated()) / 2**30,
        "peak_reserved_gib": largest(torch.cuda.max_memory_reserved()) / 2**30,
        "allocation_retries": largest(torch.cuda.memory_stats().get("num_alloc_retries", 0)),
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return processor_name()


class Clock:
    """Seconds of named parts: by events on a GPU, so that nothing waits while it measures."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.gpu = device, device.type == "cuda"
        self.spans: list[tuple[str, Any, Any]] = []

    def clear(self) -> None:
        self.spans.clear()

    def now(self) -> float:
        return wait(self.device)

    @contextmanager
    def part(self, name: str) -> Any:
        start = self._mark()
        yield
        self.spans.append((name, start, self._mark()))

    def _mark(self) -> Any:
        if not self.gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, start, stop in self.spans:
            length = start.elapsed_time(stop) / 1e3 if self.gpu else stop - start
            found[name] = found.get(name, 0.0) + length
        return found
