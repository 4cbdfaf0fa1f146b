"""What can be compared: a run folder, the result that a report kept of one, or any stamped file."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbkit.cluster.metrics_file import Row, read_rows
from nbkit.cluster.run_folder import RunFolder, open_run

RESULT, METRICS = "result.json", "metrics.jsonl"


@dataclass(frozen=True)
class Record:
    """One stage, or the whole of a result without stages; what is not known is empty.

    Attributes:
        name: of the stage, or "".
        config: what it was called with.
        stamp: where and from what it was computed.
        rows: the metrics, one row a step.
        result: what came out.

    """

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    stamp: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of two things to be compared.

    Attributes:
        path: where it was read.
        facts: of the run as a whole, such as its state and its cost.
        records: its stages.

    """

    path: Path
    facts: dict[str, str]
    records: list[Record]


def open_side(path: Path) -> Side:
    """Read a run folder, a folder of recorded results, or a stamped file.

    Args:
        path: a run folder; a file that ``nbkit job report``, a training script or a study wrote;
            or a folder with such files, one a stage (``ppo/result.json`` or ``ppo.json``).

    Raises:
        ValueError: it is none of them.

    """
    if path.is_file():
        return _of_file(path)
    try:
        return _of_run(open_run(path))
    except ValueError:
        pass  # no run folder; perhaps what was kept of one
    if (path / RESULT).is_file():
        return _of_file(path / RESULT)
    found = {file.parent.name: file for file in sorted(path.glob(f"*/{RESULT}"))}
    found |= {file.stem: file for file in sorted(path.glob("*.json"))}
    if not found:
        raise ValueError(
            f"{path}: neither a run folder (job.json or config.json) nor recorded results "
            f"({RESULT}, also one a stage, or another stamped .json)"
        )
    records = [_whole(file, _read(file), name) for name, file in found.items()]
    return Side(path, {}, records)


def _of_run(run: RunFolder) -> Side:
    facts = {"state": run.state, "attempts": str(run.attempts)}
    facts["GPU hours"] = f"{run.gpu_hours:.2f}"
    facts["cost"] = run.cost
    records = [
        Record(
            stage.name,
            stage.json("config.json"),
            stage.json("stamp.json"),
            stage.rows,
            _without_stamp(stage.json(RESULT)),
        )
        for stage in run.stages
    ]
    return Side(run.path, facts, records)


def _of_file(path: Path) -> Side:
    content = _read(path)
    stages = content.get("stages")
    if not ("gpu_hours" in content and isinstance(stages, dict)):
        config = content["stamp"].get("config") or {}
        return Side(path, {}, [_whole(path, content, str(config.get("stage", "")))])
    # Written by `nbkit job report`.
    facts = {"state": content["state"], "attempts": str(content["attempts"])}
    facts["GPU hours"] = f"{content['gpu_hours']:.2f}"
    facts["cost"] = content["cost"]
    records = [
        Record(
            "" if name == "all" else name,
            stage["config"],
            content["stamp"] | {key: stage[key] for key in ("seeds", "device_name")},
            _rows_of(stage["curves"]),
            stage["result"],
        )
        for name, stage in stages.items()
    ]
    return Side(path, facts, records)


def _whole(path: Path, content: dict[str, Any], name: str) -> Record:
    """A stamped file as it stands; its metrics lie beside it, if they were kept."""
    stamp = content["stamp"]
    config = stamp.get("config") or {}
    rows = read_rows(path.with_name(METRICS)) if path.name == RESULT else []
    return Record(name, config, stamp, rows, _without_stamp(content))


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON file with a stamp.

    Raises:
        ValueError: no JSON, or without a stamp.

    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # also text that is no UTF-8
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("stamp"), dict):
        raise ValueError(f"{path} has no stamp, so where its numbers come from is not known")
    return content


def _without_stamp(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("stamp", "device_name")}


def _rows_of(curves: dict[str, list[Any]]) -> list[Row]:
    """Rows from columns; a step without a value of some metric has no entry for it."""
    steps = curves["step"]
    return [
        {
            name: int(column[i]) if name == "step" else float(column[i])
            for name, column in curves.items()
            if column[i] is not None
        }
        for i in range(len(steps))
    ]
