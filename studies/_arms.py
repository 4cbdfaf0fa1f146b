"""Studies of arms and seeds: their runs in processes of their own, kept, told and stored."""

import inspect
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.processes import in_processes
from bookkit.authoring.study import start_study
from nbkit.runs.provenance import Provenance
from nbkit.runs.sha256 import text_digest

Key = tuple[str, int]  # arm and seed
Run = dict[str, Any]
Task = Callable[[], Run]


def by_arm(runs: Mapping[Key, Run]) -> dict[str, list[Run]]:
    """The runs of each arm."""
    arms: dict[str, list[Run]] = {}
    for (arm, _), run in runs.items():
        arms.setdefault(arm, []).append(run)
    return arms


def every(arms: Iterable[str], seeds: Sequence[int]) -> list[Key]:
    """Every seed of an arm, then the next arm."""
    return [(arm, seed) for arm in arms for seed in seeds]


def seed_by_seed(arms: Iterable[str], seeds: Sequence[int]) -> list[Key]:
    """Every arm of a seed, then the next seed: for arms that start from one base."""
    return [(arm, seed) for seed in seeds for arm in arms]


@dataclass(frozen=True)
class Arms:
    """A study of arms and seeds.

    Attributes:
        run: one run, of an arm, a seed and, if it takes one, a ``device``.
        keys: arm and seed of every run, in the order in which they begin: the slowest first.
        config: the protocol, for the stamp.
        result: what is stored of all runs.
        tell: what is printed of a run beside its seconds.
        verdict: given the runs of each arm once the result is stored: lines to print; it may raise.

    """

    run: Callable[..., Run]
    keys: Sequence[Key]
    config: Mapping[str, Any]
    result: Callable[[dict[Key, Run]], Mapping[str, Any]] = lambda runs: {"arms": by_arm(runs)}
    tell: Callable[[Run], str] = lambda run: ""
    verdict: Callable[[dict[str, list[Run]]], Iterable[str]] = lambda arms: ()

    def measure(
        self,
        out: Path,
        jobs: int = 1,
        device: str = "cpu",
        minutes: float = math.inf,
        only: str = "",
    ) -> None:
        """Run the study and write its stamped result.

        Args:
            out: the result file; what has ended lies beside it until all has.
            jobs: runs at a time, each in a process and on a thread of its own.
            device: of the models, where the study can choose; "cuda": the GPUs in turn.
            minutes: no run begins later; the same command goes on with what is left.
            only: beginnings of arms, with commas between, to run anew; the others, and the stamp
                that they were made under, are kept from the result file.

        """
        anew = self._chosen(only)
        old = json.loads(out.read_text()) if len(anew) < len(self.keys) else {}
        study = start_study(out, seeds=sorted({seed for _, seed in self.keys}), config=self.config)
        kept, end = partial_file(out), time.monotonic() + 60 * minutes
        tasks, of = self._tasks(anew, device), what_runs(study.provenance)
        found = run_all(tasks, jobs=jobs, kept=kept, of=of, end=end, tell=self.tell)
        if len(found) < len(anew):
            raise SystemExit(
                f"{len(found)} of {len(anew)} runs ended in {minutes:g} minutes; the same command "
                "goes on with the others"
            )
        found = stored_runs(old) | found
        if missing := [key for key in self.keys if key not in found]:
            raise SystemExit(f"{out} holds no run of {missing[0]}; run the study without --only")
        runs = {key: found[key] for key in self.keys}
        study.finish({**self.result(runs), **_kept(old, anew)})
        kept.unlink()
        for line in self.verdict(by_arm(runs)):
            print(line, flush=True)

    def _chosen(self, only: str) -> list[Key]:
        chosen = [key for key in self.keys if key[0].startswith(tuple(only.split(",")))]
        if not chosen:
            arms = ", ".join(dict(self.keys))
            raise SystemExit(f"--only {only}: no arm begins so; the arms are: {arms}")
        return chosen

    def _tasks(self, keys: Sequence[Key], device: str) -> dict[Key, Task]:
        if "device" not in inspect.signature(self.run).parameters:
            if device != "cpu":
                raise SystemExit(f"--device {device}: this study runs on the CPU alone")
            return {key: partial(self.run, *key) for key in keys}
        return {
            key: partial(self.run, *key, device=spread_over(device, number))
            for number, key in enumerate(keys)
        }


def stored_runs(result: Mapping[str, Any]) -> dict[Key, Run]:
    """The runs of a result: by arm, or a list whose runs name their "arm"; all say their "seed"."""
    runs = result.get("arms", result.get("runs", {}))
    if isinstance(runs, list):
        return {(run["arm"], run["seed"]): run for run in runs}
    return {(arm, run["seed"]): run for arm, some in runs.items() for run in some}


def _kept(old: Mapping[str, Any], anew: Sequence[Key]) -> dict[str, Any]:
    """Which arms of a result were not run now, and the stamp that they were made under."""
    if not old:
        return {}
    arms = {arm for arm, _ in stored_runs(old)} - {arm for arm, _ in anew}
    return {"kept": {"stamp": old.get("kept", old)["stamp"], "arms": sorted(arms)}}


def spread_over(device: str, number: int) -> str:
    """The device of a task: "cuda" takes the GPUs in turn."""
    if device == "cuda":
        return f"cuda:{number % torch.cuda.device_count()}"
    return device


def run_all(
    tasks: Mapping[Key, Task],
    *,
    jobs: int = 1,
    kept: Path | None = None,
    of: str = "",
    end: float = math.inf,
    tell: Callable[[Run], str] = lambda run: "",
) -> dict[Key, Run]:
    """Run every task in ``jobs`` processes of one thread, the first ones first.

    Args:
        tasks: by arm and seed; a function of a module and its arguments (``functools.partial``).
        jobs: processes; 1: all in this one.
        kept: a file of JSON lines to which each result is added as it ends; what it holds already
            is not run again.
        of: what runs, in a word that its first line holds; another word is refused.
        end: no task begins when the clock ``time.monotonic`` has reached this.
        tell: what to print of a result beside its seconds.

    Returns:
        what the tasks returned, with "seed" and "seconds", in their order.

    Raises:
        TaskError: a task failed; what ended before it is kept.
        SystemExit: ``kept`` holds runs of something else.

    """
    found = dict(_read(kept, of))
    left = {
        key: partial(_one, key[1], task, end) for key, task in tasks.items() if key not in found
    }
    ended = in_processes(left, jobs, name=lambda key: f"{key[0]}, seed {key[1]}")
    for number, (key, run) in enumerate(ended, start=1):
        if run is None:
            continue
        found[key] = run
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            if of and not kept.exists():
                kept.write_text(json.dumps(of) + "\n")
            with kept.open("a") as file:
                file.write(json.dumps([*key, run]) + "\n")
        said = f"{number}/{len(left)} {key[0]}, seed {key[1]}: {run['seconds']:.0f} s {tell(run)}"
        print(said.rstrip(), flush=True)
    return {key: found[key] for key in tasks if key in found}


def all_of(found: dict[Key, Run], tasks: Mapping[Key, Any], what: str = "runs") -> dict[Key, Run]:
    """What was found, if it is of all tasks.

    Raises:
        SystemExit: some did not end in time.

    """
    if len(found) < len(tasks):
        raise SystemExit(f"{what}: {len(found)} of {len(tasks)} ended; run the command again")
    return found


def partial_file(out: Path) -> Path:
    """Where the runs of a study are kept until all have ended."""
    return out.with_suffix(".partial.jsonl")


def what_runs(started: Provenance) -> str:
    """A digest of protocol and code: runs of another one must not stand under this one's stamp."""
    stamp = started.stamp()
    return text_digest(json.dumps([stamp["config_sha256"], stamp["code"] or stamp["tree"]]))


def _read(kept: Path | None, of: str) -> Iterator[tuple[Key, Run]]:
    if kept is None or not kept.exists():
        return
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    if of:
        if lines[:1] != [of]:
            raise SystemExit(
                f"{kept} holds runs of another protocol or of other code; delete it, or go on at "
                "the commit that began them"
            )
        del lines[0]
    for arm, seed, run in lines:
        yield (arm, seed), run


def _one(seed: int, task: Task, end: float) -> Run | None:
    """A result, or None if it is too late to begin; the clock is the same in every process."""
    if time.monotonic() >= end:
        return None
    torch.set_num_threads(1)
    started = time.perf_counter()
    run = task()
    return {"seed": seed, "seconds": time.perf_counter() - started, **run}
