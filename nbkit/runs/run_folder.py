"""Read a run folder: its stages, how far each is, what all attempts have cost."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

from nbkit.runs.json_file import read_json
from nbkit.runs.lock import is_held
from nbkit.runs.metrics_file import Row, read_rows, whole_lines
from nbkit.runs.samples import FILE as SAMPLES
from nbkit.runs.samples import Sample, read_samples

SECONDS_AN_HOUR = 3600
FACTS = "job.json"
# The digest of the scripts that a run was submitted with; its stamp keeps it.
LAUNCH_VARIABLE = "NBKIT_LAUNCH"


@dataclass(frozen=True)
class StageFolder:
    """One stage's folder; "" is the name of the only one of a job without stages."""

    name: str
    path: Path

    @property
    def state(self) -> str:
        """new, running, preempted, interrupted (killed without a word), failed or finished."""
        path = self.path / "state"
        state = path.read_text(errors="replace").strip() if path.exists() else "new"
        # Whoever wrote "running" holds the lock; where there are no locks its word must do.
        return "interrupted" if state == "running" and is_held(self.path) is False else state

    @cached_property
    def rows(self) -> list[Row]:
        """The metrics, one row a step."""
        return read_rows(self.path / "metrics.jsonl")

    @cached_property
    def samples(self) -> list[tuple[int, Sample]]:
        """What a language model wrote at some steps; [] of other jobs."""
        return read_samples(self.path / SAMPLES)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """Starts, checkpoints and ends, in order."""
        path = self.path / "events.jsonl"
        found = []
        for number, event in whole_lines(path):
            if not all(isinstance(event.get(name), str) for name in ("event", "time", "job")):
                raise ValueError(f"{path}:{number}: an event has the texts event, time and job")
            found.append(event)
        return found

    def json(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder, or {} if it is not there yet."""
        path = self.path / name
        return read_json(path) if path.exists() else {}

    def finished_json(self, name: str, *needed: str) -> dict[str, Any]:
        """A JSON file that a finished stage must have, with these keys.

        Raises:
            ValueError: the file, or a key in it, is missing.

        """
        path = self.path / name
        if not path.exists():
            raise ValueError(f"{path} is missing, though the stage has finished; run it again")
        content = read_json(path)
        missing = [key for key in needed if key not in content]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; run the stage again")
        return content


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
        if price is None:
            return ""
        return f"{self.gpu_hours * price:.2f} {self.facts.get('currency', '')}".strip()

    @property
    def slurm_job(self) -> str:
        """The number of the last Slurm job, or ""."""
        events = [event for stage in self.stages for event in stage.events]
        return max(events, key=lambda event: event["time"])["job"] if events else ""

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        spans = []
        for path in sorted((self.path / "attempts").glob("[!.]*")):
            words = path.read_text(errors="replace").split()
            if len(words) == 2 and all(word.isascii() and word.isdigit() for word in words):
                spans.append((int(words[0]), int(words[1])))
        return spans


def open_run(path: Path) -> RunFolder:
    """Open a run folder, written by a launcher or by the training script alone.

    Raises:
        ValueError: it is none, or its job.json cannot be read.

    """
    facts = path / FACTS
    if facts.exists():
        return RunFolder(path, _checked(facts, read_json(facts)))
    if (path / "config.json").exists():
        return RunFolder(path, {})
    stages = sorted(file.parent.name for file in path.glob("*/config.json"))
    if stages:
        return RunFolder(path, {"stages": stages})
    raise ValueError(f"{path} is no run folder: it holds neither job.json nor config.json")


def is_run(path: Path) -> bool:
    """Whether a folder was written by a launcher or by a training script, readable or not."""
    return any(path.glob("*/config.json")) or any(
        (path / name).exists() for name in (FACTS, "config.json")
    )


def find_runs(folder: Path) -> list[Path]:
    """All run folders below a folder, readable or not."""
    return [file.parent for file in sorted(folder.rglob(FACTS))]


def _checked(path: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Refuse facts of another kind than a launcher writes; one that is missing is not known."""
    kinds: dict[str, tuple[type, ...]] = {"job": (str,), "variant": (str,), "currency": (str,)}
    kinds |= {"gpus": (int,), "price_per_gpu_hour": (int, float, NoneType), "stages": (list,)}
    for name, kind in kinds.items():
        if name in facts and not isinstance(facts[name], kind):
            raise ValueError(f"{path}: {name} is {facts[name]!r}, which no launcher writes")
    if not all(isinstance(name, str) for name in facts.get("stages", [])):
        raise ValueError(f"{path}: a stage's name is no text")
    return facts
