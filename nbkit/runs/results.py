"""Recorded results: what a study, a benchmark or a job leaves for the pages. One form, one reader.

A file is JSON: `stamp` says what was run, where and when; beside it stands what came out. A job's
result has `stages`, each with its configuration, what came out of it, and its metrics as columns:

    {"stamp": {"commit", "clean", "started", "ended", "seeds", "config", "packages",
               "device_name", …},
     "job", "variant", "state", "attempts", "hours", "gpu_hours", "cost",
     "stages": {name: {"result", "config", "seeds", "device_name", "curves": {metric: column}}}}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbkit.errors import UserError
from nbkit.runs.json_file import read_stamped
from nbkit.runs.root import ROOT

STAMPED = ("commit", "clean", "started", "ended", "seeds", "config", "packages", "device_name")


@dataclass(frozen=True)
class Stage:
    """One stage of a job.

    Attributes:
        result: what came out.
        config: what the stage was called with.
        curves: metric to column; None where a step has no value of it.

    """

    result: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result(Mapping[str, Any]):
    """A recorded result; its parts by their names, the stamp among them.

    Attributes:
        file: where it stands.
        content: all of it.

    """

    file: Path
    content: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    @property
    def stamp(self) -> dict[str, Any]:
        """What was run, where and when."""
        found: dict[str, Any] = self.content["stamp"]
        return found

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages of a job by their names; empty where there are none."""
        found = self.content.get("stages", {})
        return {
            name: Stage(stage["result"], stage["config"], stage["curves"])
            for name, stage in found.items()
        }

    @property
    def made(self) -> str:
        """Device, number of seeds, torch and commit, to stand beside a figure."""
        stamp = self.stamp
        count = len(stamp["seeds"])
        seeds = f"{count} seed{'s' * (count != 1)}"
        torch = stamp["packages"].get("torch")
        versions = [f"torch {torch}"] if torch else []
        parts = [stamp["device_name"], seeds, *versions, f"commit {stamp['commit'][:7]}"]
        return ", ".join(parts)


def read_result(path: str | Path) -> Result:
    """Read a recorded result.

    Args:
        path: absolute, or from the repository's root whatever the working folder is.

    Raises:
        UserError: there is no such file, it is no JSON, or it has no whole stamp.

    """
    file = ROOT / path
    try:
        content = read_stamped(file)
    except OSError as error:
        raise UserError(f"{path} is no recorded result: {error}") from error
    except ValueError as error:  # which names the file and what is wrong with it
        raise UserError(str(error)) from error
    missing = [name for name in STAMPED if name not in content["stamp"]]
    if missing:
        raise UserError(f"{path}: its stamp lacks {', '.join(missing)}")
    return Result(file, content)
