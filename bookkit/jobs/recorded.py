"""What can be compared: a run folder, the result that a report kept of one, or any stamped file."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbkit.runs.json_file import read_stamped
from nbkit.runs.metrics_file import Row, read_rows
from nbkit.runs.run_folder import RunFolder, is_run, open_run

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
            or a folder with such a ``result.json``.

    Raises:
        ValueError: it is none of them, or a file of it is not what its writer left.

    """
    if path.is_file():
        return _of_file(path)
    if is_run(path):
        return _of_run(open_run(path))
    if (path / RESULT).is_file():
        return _of_file(path / RESULT)
    raise ValueError(
        f"{path}: neither a run folder (job.json or config.json) nor recorded results ({RESULT})"
    )


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
    content = read_stamped(path)
    stages = content.get("stages")
    if not ("gpu_hours" in content and isinstance(stages, dict)):
        whole = _whole(path, content, "")
        return Side(path, {}, [replace(whole, name=str(whole.config.get("stage", "")))])
    try:
        return _of_report(path, content, stages)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not what `nbkit job report` writes ({error!r})") from error


def _of_report(path: Path, content: dict[str, Any], stages: dict[str, Any]) -> Side:
    """What `nbkit job report` wrote."""
    facts = {"state": content["state"], "attempts": str(content["attempts"])}
    facts["GPU hours"] = f"{content['gpu_hours']:.2f}"
    facts["cost"] = content["cost"]
    records = [
        Record(
            "" if name == "all" else name,
            stage["config"],
            # Reports of an earlier form have no number of ranks.
            content["stamp"]
            | {key: stage[key] for key in ("seeds", "device_name")}
            | {key: stage[key] for key in ("ranks",) if key in stage},
            _rows_of(stage["curves"]),
            stage["result"],
        )
        for name, stage in stages.items()
    ]
    return Side(path, facts, records)


def _whole(path: Path, content: dict[str, Any], name: str) -> Record:
    """A stamped file as it stands; the metrics of a stage's folder lie beside it."""
    stamp = content["stamp"]
    config = stamp.get("config") or {}
    if not isinstance(config, dict):
        raise ValueError(f"{path}: the stamp's config is {config!r}, and no mapping")
    rows = read_rows(path.with_name(METRICS)) if path.name == RESULT else []
    return Record(name, config, stamp, rows, _without_stamp(content))


def _without_stamp(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("stamp", "device_name")}


def _rows_of(curves: dict[str, list[Any]]) -> list[Row]:
    """Rows from columns; a step without a value of some metric has no entry for it."""
    if not curves:
        return []
    steps = curves["step"]
    return [
        {
            name: int(column[i]) if name == "step" else float(column[i])
            for name, column in curves.items()
            if column[i] is not None
        }
        for i in range(len(steps))
    ]
