"""Runs of a study in processes of their own; each is written down as it ends."""

import json
import multiprocessing as mp
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

Key = tuple[str, int]  # arm and seed


def _one(packed: tuple[Callable[..., dict[str, Any]], Key]) -> tuple[Key, dict[str, Any]]:
    run, (arm, seed) = packed
    torch.set_num_threads(1)
    started = time.perf_counter()
    result = run(arm, seed)
    return (arm, seed), {"seed": seed, "seconds": time.perf_counter() - started, **result}


def run_all(
    run: Callable[..., dict[str, Any]], keys: Sequence[Key], jobs: int, partial: Path
) -> dict[str, list[dict[str, Any]]]:
    """Run every (arm, seed) in ``jobs`` processes, the first ones first.

    Args:
        run: from arm and seed to a result; a function of a module.
        keys: what to run.
        jobs: processes; 1: all in this one.
        partial: a file of JSON lines; runs that it holds already are not repeated.

    Returns:
        the results of each arm, in the order of ``keys``.

    """
    found: dict[Key, dict[str, Any]] = {}
    if partial.exists():
        for line in partial.read_text().splitlines():
            arm, seed, result = json.loads(line)
            found[arm, seed] = result
    work = [(run, key) for key in keys if key not in found]
    partial.parent.mkdir(parents=True, exist_ok=True)

    def keep(key: Key, result: dict[str, Any]) -> None:
        found[key] = result
        with partial.open("a") as file:
            file.write(json.dumps([*key, result]) + "\n")
        print(f"{key[0]}, seed {key[1]}: {result['seconds']:.0f} s", flush=True)

    if jobs == 1:
        for packed in work:
            keep(*_one(packed))
    else:
        with mp.get_context("spawn").Pool(jobs) as pool:
            for key, result in pool.imap_unordered(_one, work):
                keep(key, result)
    arms: dict[str, list[dict[str, Any]]] = {}
    for arm, seed in keys:
        arms.setdefault(arm, []).append(found[arm, seed])
    return arms
