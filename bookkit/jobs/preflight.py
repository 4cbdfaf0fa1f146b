"""Try each GPU, or process, before the first step: memory, a product, an all-reduce.

Launched as a training script is, with the job's configuration, in whose place it runs for some
seconds. Results must be exact, and no GPU may be much slower than the others. It prints one line,
writes ``RUN/preflight.json``, and names nodes that fail in ``RUN/bad_nodes``; the batch script
leaves them out when it starts the job again.
"""

import json
import os
import re
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import yaml

from nbkit.parallel import World, join
from nbkit.parallel.counts import gather_objects

SLOW = 0.7  # of the median of all GPUs; below, one counts as broken
TIMEOUT_S = 120.0
INNER = 1024  # sums of so many ±1 stay below 256, where bfloat16 holds every whole number
# (rows of the product, bytes that are copied, bytes that are reduced, repetitions)
SIZES = {"cuda": (8192, 2**30, 2**28, 20), "cpu": (128, 2**22, 2**20, 3)}


@dataclass(frozen=True)
class Report:
    """What one process found.

    Attributes:
        node: as Slurm, or the machine itself, calls it.
        device: such as "cuda:3".
        wrong: what was not as it must be; "": nothing.
        copy_gb_s: bytes read and written by a copy in the device's memory, 10⁹ a second.
        product_tflop_s: of bfloat16 products, 10¹² operations a second.
        reduce_gb_s: bytes of a tensor that is all-reduced, 10⁹ a second; 0 before that.

    """

    node: str
    device: str
    wrong: str = ""
    copy_gb_s: float = 0.0
    product_tflop_s: float = 0.0
    reduce_gb_s: float = 0.0


def timed(call: Callable[[], Any], device: torch.device, times: int) -> float:
    """Seconds of a call, the mean of several after one that does not count."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    call()
    start = now()
    for _ in range(times):
        call()
    return (now() - start) / times


def try_memory(device: torch.device) -> tuple[str, float]:
    """Copy a large tensor; what is wrong with the copy, and 10⁹ bytes a second."""
    _, size, _, times = SIZES[device.type]
    source = torch.arange(size // 8, dtype=torch.int64, device=device)
    target = torch.empty_like(source)
    seconds = timed(lambda: target.copy_(source), device, times)
    wrong = "" if torch.equal(source, target) else "a copy in its memory differs from the original"
    return wrong, 2 * size / seconds / 1e9


def try_product(device: torch.device) -> tuple[str, float]:
    """Multiply matrices of ±1 in bfloat16; what is wrong with it, and 10¹² operations a second.

    The product is compared exactly, by a random vector: (A B) r = A (B r) (Freivalds, 1977).
    """
    rows, _, _, times = SIZES[device.type]
    generator = torch.Generator().manual_seed(0)

    def signs(*shape: int) -> torch.Tensor:
        drawn = torch.randint(0, 2, shape, generator=generator, dtype=torch.int8)
        return drawn.to(device).bfloat16() * 2 - 1

    a, b, r = signs(rows, INNER), signs(INNER, rows), signs(rows, 1).double()
    product = torch.empty(rows, rows, dtype=torch.bfloat16, device=device)
    seconds = timed(lambda: torch.mm(a, b, out=product), device, times)
    same = torch.equal(product.double() @ r, a.double() @ (b.double() @ r))
    return "" if same else "a product is wrong", 2 * rows * rows * INNER / seconds / 1e12


def try_reduce(world: World) -> tuple[str, float]:
    """All-reduce a large tensor; what is wrong with it, and 10⁹ bytes a second."""
    _, _, size, times = SIZES[world.device.type]
    tensor = torch.empty(size // 4, dtype=torch.float32, device=world.device)

    def reduce() -> None:
        tensor.fill_(world.rank + 1.0)
        dist.all_reduce(tensor)

    seconds = timed(reduce, world.device, times)
    wanted = world.size * (world.size + 1) / 2
    wrong = "" if bool((tensor == wanted).all()) else "an all-reduce is wrong"
    return wrong, size / seconds / 1e9


def try_device(world: World, node: str) -> Report:
    """What this process finds by itself; a fault of the device is part of what it finds."""
    try:
        memory, copied = try_memory(world.device)
        product, multiplied = try_product(world.device)
    except RuntimeError as error:  # CUDA's own
        return Report(node, str(world.device), wrong=" ".join(str(error).split())[:200])
    return Report(node, str(world.device), memory or product, copied, multiplied)


def faults(reports: Sequence[Report], *, speeds: Sequence[str]) -> list[tuple[str, str]]:
    """Node and sentence for each device that is wrong or slow.

    Args:
        reports: of all processes.
        speeds: fields that are compared with their median over the processes.

    """
    found = [(r.node, f"{r.node}, {r.device}: {r.wrong}") for r in reports if r.wrong]
    for name in speeds:
        middle = statistics.median(getattr(report, name) for report in reports)
        found += [
            (r.node, f"{r.node}, {r.device}: {name} is {getattr(r, name):.3g}, median {middle:.3g}")
            for r in reports
            if not r.wrong and getattr(r, name) < SLOW * middle
        ]
    return found


def missing(message: str) -> list[int]:
    """The ranks that a message of ``monitored_barrier`` names."""
    named = re.search(r"[Rr]anks? ((?:\d+(?:, )?)+) failed", message.partition("]")[2] or message)
    return [int(word) for word in re.findall(r"\d+", named[1])] if named else []


def refuse(found: Sequence[tuple[str, str]], run: Path | None, world: World) -> None:
    """End the program if there are faults; the first rank notes and tells them."""
    if not found:
        return
    if world.is_main:
        if run is not None:
            names = sorted({node for node, _ in found})
            (run / "bad_nodes").write_text("".join(f"{name}\n" for name in names))
        print("preflight: " + "; ".join(says for _, says in found), file=sys.stderr, flush=True)
    raise SystemExit(1)


def wait_for_all(world: World, nodes: Sequence[str], run: Path | None) -> None:
    """Wait until every rank has come so far; name the nodes of those that do not."""
    if world.size == 1:
        return
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=TIMEOUT_S), wait_all_ranks=True)
    except RuntimeError as error:
        late = [(nodes[r], f"{nodes[r]}, rank {r}: no answer") for r in missing(str(error))]
        refuse(late, run, world)
        raise


def main(device: str | None) -> list[Report]:
    """Try everything; return what each process found.

    Args:
        device: "cpu" or "cuda"; None: "cuda" where there is one.

    Raises:
        SystemExit: something is wrong or slow.

    """
    world = join(device, timeout_s=2 * TIMEOUT_S)
    folder = os.environ.get("NBKIT_RUN_FOLDER")
    run = Path(folder) if folder else None
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    nodes = gather_objects(node)
    own = try_device(world, node)
    wait_for_all(world, nodes, run)
    gpu = world.device.type == "cuda"  # processes on processors share them: no speed to compare
    speeds = ("copy_gb_s", "product_tflop_s") if gpu else ()
    refuse(faults(gather_objects(own), speeds=speeds), run, world)
    if world.size > 1:
        wrong, reduced = try_reduce(world)
        own = Report(**asdict(own) | {"wrong": wrong, "reduce_gb_s": reduced})
    reports = gather_objects(own)
    refuse(faults(reports, speeds=()), run, world)
    if world.is_main:
        if run is not None:
            (run / "preflight.json").write_text(json.dumps([asdict(r) for r in reports], indent=1))
        slowest = {
            name: min(getattr(r, name) for r in reports) for name in asdict(own) if "_s" in name
        }
        print(
            f"preflight: {world.size} of {world.device.type} on {len(set(nodes))} nodes; slowest: "
            + ", ".join(f"{name} {value:.3g}" for name, value in slowest.items()),
            flush=True,
        )
    return reports


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main((given or {}).get("device"))
    if dist.is_initialized():
        dist.destroy_process_group()
