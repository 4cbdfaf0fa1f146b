"""Seconds of an optimiser's step on the host, against its threads: what offloading waits for.

    python benchmarks/host_adam.py --out benchmarks/results/host_adam.json

DeepSpeed's Adam for processors (ZeRO-Offload, Ren et al. 2021, section 5) on float32 weights,
gradients and moments. ``OMP_NUM_THREADS`` counts when a library is loaded, so that each number of
threads has a process of its own; all take turns, round by round. By the clock: on an idle machine.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from nbkit.memory import SHAPES
from nbkit.parallel.deepspeed_setup import ready
from nbkit.runs import provenance

ELEMENTS = 500_000_000  # 8 GB of weights, gradients and moments: far more than a cache holds
ROUNDS, STEPS = 2, 3


def step_here(elements: int, steps: int) -> None:
    """Step so often in this process and print the seconds of each."""
    ready("cpu")
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    weights = torch.nn.Parameter(torch.zeros(elements))
    weights.grad = torch.full((elements,), 1e-3)
    optimiser = DeepSpeedCPUAdam([weights], lr=1e-4)
    optimiser.step()  # makes the moments
    for _ in range(steps):
        start = time.perf_counter()
        optimiser.step()
        print(f"seconds {time.perf_counter() - start}")


def measured(threads: int, elements: int, steps: int) -> list[float]:
    """The steps of a process with so many threads, in seconds."""
    done = subprocess.run(
        [sys.executable, __file__, "--elements", str(elements), "--step-here", str(steps)],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{threads} threads: {done.stderr.strip()[-500:]}")
    lines = done.stdout.splitlines()
    return [float(line.split()[1]) for line in lines if line.startswith("seconds ")]


def main(
    out: Annotated[Path | None, typer.Option(help="Where the stamped JSON goes.")] = None,
    threads: Annotated[str, typer.Option(help="Numbers of threads.")] = "1,2,4,8,16",
    elements: Annotated[int, typer.Option(help="Weights to step.")] = ELEMENTS,
    rounds: Annotated[int, typer.Option(help="How often each is measured.")] = ROUNDS,
    step_here_: Annotated[int, typer.Option("--step-here", hidden=True)] = 0,
) -> None:
    """Measure, print, and store where asked."""
    if step_here_:
        step_here(elements, step_here_)
        return
    counts = [int(count) for count in threads.split(",")]
    config = {"elements": elements, "threads": counts, "rounds": rounds}
    started = provenance.start(seeds=[0], config=config, watched=("nbkit", "benchmarks"))
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count in counts:
            seconds[count] += measured(count, elements, STEPS)
    weights = SHAPES["qwen2.5-7b"].parameters
    rows: list[dict[str, Any]] = [
        {
            "threads": count,
            "seconds": taken,
            "of a 7B model": [value * weights / elements for value in taken],
        }
        for count, taken in seconds.items()
    ]
    for row in rows:
        print(f"{row['threads']} threads: {statistics.median(row['of a 7B model']):.1f} s for 7B")
    if out:
        result = {"cores": os.cpu_count(), "rows": rows}
        provenance.write_json(out, {"stamp": started.stamp(), **result})


if __name__ == "__main__":
    typer.run(main)
