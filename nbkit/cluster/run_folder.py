"""Read a run folder: its stages, how far each is, what all attempts have cost."""

import fcntl
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nbkit.cluster.metrics_file import Row, read_rows

SECONDS_AN_HOUR = 3600


@dataclass(frozen=True)
class StageFolder:
    """One stage's folder; "" is the name of the only one of a job without stages."""

    name: str
    path: Path

    @property
    def state(self) -> str:
        """new, running, preempted, interrupted (killed without a word), failed or finished."""
        path = self.path / "state"
        state = path.read_text().strip() if path.exists() else "new"
        return "interrupted" if state == "running" and not self._is_locked() else state

    @cached_property
    def rows(self) -> list[Row]:
        """The metrics, one row a step."""
        return read_rows(self.path / "metrics.jsonl")

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """Starts, checkpoints and ends, in order."""
        path = self.path / "events.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def json(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder, or {} if it is not there yet."""
        path = self.path / name
        return json.loads(path.read_text("utf-8")) if path.exists() else {}

    def _is_locked(self) -> bool:
        """Whether the process that wrote "running" is still there."""
        lock = self.path / "lock"
        if not lock.exists():
            return False
        with lock.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


@dataclass(frozen=True)
class RunFolder:
    """A run folder.

    Raises:
        ValueError: when made by `open_run` from a folder that is none.

    """

    path: Path
    facts: dict[str, Any]

    @property
    def stages(self) -> list[StageFolder]:
        """All stages, begun or not."""
        names = self.facts.get("stages") or [""]
        return [StageFolder(name, self.path / name) for name in names]

    @property
    def state(self) -> str:
        """The state of the first stage that has not finished, or finished."""
        states = [stage.state for stage in self.stages]
        left = [state for state in states if state != "finished"]
        begun = len(left) < len(states)
        if not left:
            return "finished"
        return "between stages" if left[0] == "new" and begun else left[0]

    @property
    def attempts(self) -> int:
        """How often a launcher has been started on it."""
        return len(self._spans)

    @property
    def hours(self) -> float:
        """Wall time of all attempts; a script that runs notes it every ten seconds."""
        return sum(last - first for first, last in self._spans) / SECONDS_AN_HOUR

    @property
    def gpu_hours(self) -> float:
        """GPU hours of all attempts."""
        return self.hours * int(self.facts.get("gpus", 0))

    @property
    def cost(self) -> str:
        """What they cost, with its currency; "" without a price."""
        price = self.facts.get("price_per_gpu_hour")
        return "" if price is None else f"{self.gpu_hours * price:.2f} {self.facts['currency']}"

    @property
    def slurm_job(self) -> str:
        """The number of the last Slurm job, or ""."""
        events = [event for stage in self.stages for event in stage.events]
        return max(events, key=lambda event: event["time"])["job"] if events else ""

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        spans = []
        for path in sorted((self.path / "attempts").glob("[!.]*")):
            words = path.read_text().split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                spans.append((int(words[0]), int(words[1])))
        return spans


def open_run(path: Path) -> RunFolder:
    """Open a run folder, written by a launcher or by the training script alone.

    Raises:
        ValueError: it is none.

    """
    facts = path / "job.json"
    if facts.exists():
        return RunFolder(path, json.loads(facts.read_text("utf-8")))
    if (path / "config.json").exists():
        return RunFolder(path, {})
    stages = sorted(file.parent.name for file in path.glob("*/config.json"))
    if stages:
        return RunFolder(path, {"stages": stages})
    raise ValueError(f"{path} is no run folder: it holds neither job.json nor config.json")


def find_runs(folder: Path) -> list[RunFolder]:
    """All run folders below a folder."""
    return [open_run(file.parent) for file in sorted(folder.rglob("job.json"))]
