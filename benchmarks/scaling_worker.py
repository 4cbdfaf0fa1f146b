"""What a rank does: wait for its GPUs, then measure a configuration within its limit."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from scaling_kernels import measure_ceiling
from scaling_peer import measure_peer
from scaling_step import measure_step
from scaling_update import device_name, measure

from nbkit.parallel import join

LATE = 124  # exit code of a process that ran over its limit
# By the kind of a setting.
WORK: dict[str, Callable[[dict[str, Any], Any], dict[str, Any]]] = {
    "update": measure,
    "step": measure_step,
    "ceiling": measure_ceiling,
    "torchtitan": measure_peer,
}


def measure_when_told(setting: dict[str, Any], gate: str) -> dict[str, Any] | None:
    """Wait until the gate names this configuration's GPUs, then run it within its limit.

    Args:
        setting: see ``scaling_plans.Setting``.
        gate: a file that will hold {"gpus", "limit_s"}, or {"cancel"}.

    """
    if setting["backend"].startswith("zero"):
        from nbkit.parallel.deepspeed_setup import ready

        ready(setting["device"])
    while not Path(gate).exists():
        time.sleep(0.02)
    told = json.loads(Path(gate).read_text())
    if told.get("cancel"):
        return None
    watch = threading.Timer(told["limit_s"], os._exit, (LATE,))
    watch.daemon = True
    watch.start()
    if setting["device"] == "cuda":
        os.environ["LOCAL_RANK"] = str(told["gpus"][int(os.environ["RANK"])])
        wait_for_memory(int(os.environ["LOCAL_RANK"]))
    else:
        torch.set_num_threads(1)
    began = time.perf_counter()
    world = join(setting["device"], timeout_s=told["limit_s"])
    joined = time.perf_counter() - began
    with attention_kernels(setting):
        result = WORK[setting["kind"]](setting, world)
    result.setdefault("setup_seconds", {})["join"] = joined
    return {
        **result,
        "world_size": world.size,
        "device_name": device_name(world.device),
        "torch": torch.__version__,
    }


def wait_for_memory(gpu: int, patience_s: float = 20.0) -> None:
    """Until the memory of processes that have ended is free again, or patience is at its end."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        free, total = torch.cuda.mem_get_info(gpu)
        if free > 0.97 * total:
            return
        time.sleep(0.2)


def attention_kernels(setting: dict[str, Any]) -> AbstractContextManager[Any]:
    """cuDNN's attention where it can, flash where it cannot; otherwise torch's own choice."""
    if setting["attention"] != "cudnn" or setting["device"] != "cuda":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    found: AbstractContextManager[Any] = sdpa_kernel(order, set_priority=True)
    return found
