"""The frame of every study: its command, its head, and its runs in processes of their own.

A study names what is its own, `STUDY = Frame(__file__, measure, head, TOLERANCES)`, and is run by
`nbkit study NAME`, or by `python -m studies.NAME` from the root of the repository.
"""

import inspect
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bookkit.authoring.heads import compare_head, read_head, tolerance_of

ROOT = Path(__file__).resolve().parents[1]
Key = tuple[str, int]  # arm and seed
Run = dict[str, Any]
Task = Callable[[], Run]


@dataclass(frozen=True)
class Frame:
    """What makes a script a study.

    Attributes:
        file: the script.
        measure: runs the study; is given where the result goes and the options that it declares.
        head: computes the figures of the study's first seconds, which CI repeats.
        tolerances: by figure or metric, see ``bookkit.authoring.heads``.

    """

    file: str
    measure: Callable[..., None]
    head: Callable[[], dict[str, float]]
    tolerances: Mapping[str, float]

    @property
    def name(self) -> str:
        """The study's name: its script's."""
        return Path(self.file).stem

    def main(self) -> None:
        """Run the study, or with ``--check`` its head alone, by the words of the command line."""
        typer.run(self.command())

    def command(self) -> Callable[..., None]:
        """The function that typer makes the command line from."""
        out = ROOT / "studies" / "results" / f"{self.name}.json"
        own = list(inspect.signature(self.measure, eval_str=True).parameters.values())
        shared = {
            "check": Annotated[
                bool, typer.Option("--check", help="Repeat the head and compare; write nothing.")
            ],
            "figures": Annotated[Path | None, typer.Option(help="Write only the head, to here.")],
        }
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            own[0].replace(kind=keyword, default=out),
            inspect.Parameter("check", keyword, default=False, annotation=shared["check"]),
            inspect.Parameter("figures", keyword, default=None, annotation=shared["figures"]),
            *(parameter.replace(kind=keyword) for parameter in own[1:]),
        ]

        def run(check: bool, figures: Path | None, **options: Any) -> None:
            torch.set_num_threads(1)
            if check:
                self.check()
            elif figures:
                figures.write_text(json.dumps(self.described()))
            else:
                self.measure(**options)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = inspect.getdoc(self.measure)
        return run

    def check(self) -> None:
        """Repeat the head and compare it with the stored one.

        Raises:
            StudyMismatch: some figure has moved.

        """
        compare_head(read_head(ROOT, self.name)["head"], self.head(), self.tolerances)

    def described(self) -> dict[str, dict[str, float]]:
        """The head computed now, and the tolerance of each of its figures."""
        head = {name: float(value) for name, value in self.head().items()}
        return {
            "head": head,
            "tolerances": {name: tolerance_of(name, self.tolerances) for name in head},
        }


def figures(
    history: Sequence[Mapping[str, float]], names: Sequence[str], arm: str = ""
) -> dict[str, float]:
    """Some metrics of each update, as figures of a head: "arm: metric 2"."""
    before = f"{arm}: " if arm else ""
    return {
        f"{before}{name} {number}": float(step[name])
        for number, step in enumerate(history, start=1)
        for name in names
    }


def run_all(
    tasks: Mapping[Key, Task],
    *,
    jobs: int = 1,
    kept: Path | None = None,
    end: float = math.inf,
    tell: Callable[[Run], str] = lambda run: "",
) -> dict[Key, Run]:
    """Run every task in ``jobs`` processes of one thread, the first ones first.

    Args:
        tasks: by arm and seed; a function of a module and its arguments (``functools.partial``).
        jobs: processes; 1: all in this one.
        kept: a file of JSON lines to which each result is added as it ends; what it holds already
            is not run again.
        end: no task begins when the clock ``time.monotonic`` has reached this.
        tell: what to print of a result beside its seconds.

    Returns:
        what the tasks returned, with "seed" and "seconds", in their order.

    """
    found = dict(_read(kept))
    left = {key: task for key, task in tasks.items() if key not in found}
    for number, (key, run) in enumerate(_finished(left, jobs, end), start=1):
        found[key] = run
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with kept.open("a") as file:
                file.write(json.dumps([*key, run]) + "\n")
        said = f"{number}/{len(left)} {key[0]}, seed {key[1]}: {run['seconds']:.0f} s {tell(run)}"
        print(said.rstrip(), flush=True)
    return {key: found[key] for key in tasks if key in found}


def by_arm(runs: Mapping[Key, Run]) -> dict[str, list[Run]]:
    """The runs of each arm."""
    arms: dict[str, list[Run]] = {}
    for (arm, _), run in runs.items():
        arms.setdefault(arm, []).append(run)
    return arms


def every(run: Callable[..., Run], arms: Sequence[str], seeds: Sequence[int]) -> dict[Key, Task]:
    """The tasks of a function of arm and seed: every seed of an arm, then the next arm."""
    return {(arm, seed): partial(run, arm, seed) for arm in arms for seed in seeds}


def partial_file(out: Path) -> Path:
    """Where the runs of a study are kept until all have ended."""
    return out.with_suffix(".partial.jsonl")


def _read(kept: Path | None) -> Iterator[tuple[Key, Run]]:
    if kept is not None and kept.exists():
        for line in kept.read_text().splitlines():
            arm, seed, run = json.loads(line)
            yield (arm, seed), run


def _finished(tasks: Mapping[Key, Task], jobs: int, end: float) -> Iterator[tuple[Key, Run]]:
    """Each result as it ends."""
    if jobs <= 1:
        for key, task in tasks.items():
            if (run := _one(key[1], task, end)) is not None:
                yield key, run
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # the children read it
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(1, len(tasks))), mp_context=context) as pool:
        keys = {pool.submit(_one, key[1], task, end): key for key, task in tasks.items()}
        for future in as_completed(keys):
            if (run := future.result()) is not None:
                yield keys[future], run


def _one(seed: int, task: Task, end: float) -> Run | None:
    """A result, or None if it is too late to begin; the clock is the same in every process."""
    if time.monotonic() >= end:
        return None
    torch.set_num_threads(1)
    started = time.perf_counter()
    run = task()
    return {"seed": seed, "seconds": time.perf_counter() - started, **run}
