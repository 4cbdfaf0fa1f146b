"""How long a step talks, and how long nothing hides that: from the profiler's timeline."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

Span = tuple[float, float]


def covered(spans: Sequence[Span]) -> float:
    """Length of the union of intervals (start, end)."""
    length, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        length += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return length


def exposed(talk: Sequence[Span], work: Sequence[Span]) -> float:
    """How long there is talk and no work."""
    return covered([*talk, *work]) - covered(work)


def watch(step: Callable[[], None], device: torch.device | str) -> dict[str, float]:
    """Take a step under the profiler.

    Args:
        step: to take; every rank takes it.
        device: on a GPU the kernels of NCCL are looked at, beside all others; on a CPU the messages
            of gloo, and there work is not told apart.

    Returns:
        "communication_s", the time in which a message ran; "exposed_s", the part of it in which
        the device did nothing else. A process that is alone sends nothing, and takes no step.

    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return {"communication_s": 0.0, "exposed_s": 0.0}
    from torch.profiler import ProfilerActivity, profile

    gpu = torch.device(device).type == "cuda"
    talk: list[Span] = []
    work: list[Span] = []
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as trace:
        step()
        if gpu:
            torch.cuda.synchronize()
    for event in trace.profiler.kineto_results.events():
        on_gpu = event.device_type() == torch.autograd.DeviceType.CUDA
        if gpu and (not on_gpu or event.is_user_annotation()):  # an annotation is no kernel
            continue
        span = event.start_ns() / 1e9, event.end_ns() / 1e9
        name = event.name().lower()
        if "nccl" in name or name.startswith("gloo:"):
            talk.append(span)
        elif gpu:
            work.append(span)
    return {"communication_s": covered(talk), "exposed_s": exposed(talk, work)}
