"""Where a step's time goes on the device: kernels by kind, and the ceiling of matrix products."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from qwen_shapes import QWEN

from nbkit.parallel.traffic import covered, exposed

# The first kind with a part in the kernel's name; what fits none is "element-wise and other".
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("communication", ("nccl", "gloo:")),
    ("optimiser", ("adam", "multi_tensor", "foreach", "lpnorm", "lp_norm")),
    ("attention", ("flash", "fmha", "sdpa", "attention")),
    ("matrix products", ("gemm", "nvjet", "cutlass", "xmma", "cublas", "matmul")),
    ("copies and casts", ("memcpy", "copy", "memset", "cat", "fill", "split_with_sizes")),
    ("compiled element-wise", ("triton",)),
)


def kind_of(name: str) -> str:
    """The kind of a kernel."""
    lower = name.lower()
    for kind, parts in KINDS:
        if any(part in lower for part in parts):
            return kind
    return "element-wise and other"


def profiled(step: Callable[[], float], device: str) -> dict[str, Any]:
    """One more step under the profiler.

    Args:
        step: takes it and returns its seconds.
        device: "cuda": the kernels are looked at; "cpu": the messages of gloo alone.

    Returns:
        {"kernels": seconds by kind, the largest kernels, and communication's share of the step:
        how long messages ran, and how long nothing else did}.

    """
    from torch.profiler import ProfilerActivity, profile

    gpu = device == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as trace:
        seconds = step()
    found: list[tuple[str, float, float]] = []
    for event in trace.profiler.kineto_results.events():
        on_device = event.device_type() == torch.autograd.DeviceType.CUDA
        if gpu and (not on_device or event.is_user_annotation()):
            continue
        start = event.start_ns() / 1e9
        found.append((event.name(), start, start + event.duration_ns() / 1e9))
    return {"kernels": by_kind(found, seconds, gpu)}


def by_kind(found: Sequence[tuple[str, float, float]], seconds: float, gpu: bool) -> dict[str, Any]:
    """Sum up kernels (name, start, end) of a step that took `seconds`."""
    talk = [(a, b) for name, a, b in found if kind_of(name) == "communication"]
    work = [(a, b) for name, a, b in found if kind_of(name) != "communication"] if gpu else []
    alone = exposed(talk, work)
    summed: dict[str, float] = {}
    largest: dict[str, float] = {}
    for name, start, end in found if gpu else ():
        kind = kind_of(name)
        summed[kind] = summed.get(kind, 0.0) + end - start
        largest[name] = largest.get(name, 0.0) + end - start
    top = sorted(largest.items(), key=lambda item: -item[1])[:12]
    return {
        "profiled_seconds": seconds,
        "busy_seconds": covered(work),
        "seconds_by_kind": summed,
        "largest": [{"kernel": name[:100], "seconds": value} for name, value in top],
        "communication_seconds": covered(talk),
        "communication_share": covered(talk) / seconds,
        "communication_exposed_seconds": alone,
        "communication_exposed_share": alone / seconds,
    }


def measure_ceiling(setting: dict[str, Any], world: Any) -> dict[str, Any]:
    """The matrix products of one block of a shape, forward and backward, for some seconds each.

    Operations a second on random numbers at a sustained clock: with the recomputation that a
    step does, this over the data sheet's peak bounds its MFU.
    """
    shape, device = QWEN[setting["shape"]], world.device
    width, inner = int(shape["hidden_size"]), int(shape["intermediate_size"])
    kind = torch.bfloat16
    patience = 2.0 if device.type == "cuda" else 0.05
    rates: dict[str, float] = {}
    for rows in (setting["micro_rows"], setting["rows_per_gpu"]):
        tokens = rows * setting["length"]
        hidden = torch.randn(tokens, width, device=device, dtype=kind)
        up = torch.randn(inner, width, device=device, dtype=kind)
        gradient = torch.randn(tokens, inner, device=device, dtype=kind)
        products = (
            lambda h=hidden, w=up: h @ w.t(),
            lambda g=gradient, w=up: g @ w,
            lambda g=gradient, h=hidden: g.t() @ h,
        )
        number, start = 0, wait(device)
        while (taken := wait(device) - start) < patience or number == 0:
            for _ in range(10 if device.type == "cuda" else 1):
                for product in products:
                    product()
                number += 3
        rates[f"{tokens} tokens"] = number * 2.0 * tokens * width * inner / taken
    copied = copy_rate(device)
    screen = {name: f"{rate / 1e12:.0f} TFLOP/s" for name, rate in rates.items()}
    return {
        "operations_per_second": rates,
        "copy_bytes_per_second": copied,
        "screen": {**screen, "copy": f"{copied / 1e12:.2f} TB/s"},
    }


def copy_rate(device: torch.device) -> float:
    """Bytes read and written a second by a copy on the device."""
    size = 2**32 if device.type == "cuda" else 2**22
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    start = wait(device)
    for _ in range(10):
        target.copy_(source)
    return 10 * 2 * size / (wait(device) - start)


def wait(device: torch.device) -> float:
    """The time once the device has done all."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
