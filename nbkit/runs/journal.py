"""What the folder of a stage says of it: its configuration, its state, its events, its result."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbkit.runs import provenance
from nbkit.runs.run_folder import LAUNCH_VARIABLE

# Where the folder lies does not change what is computed.
NOT_COMPARED = ("run_folder",)


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that must be the same when a run goes on."""
    return {key: value for key, value in config.items() if key not in NOT_COMPARED}


def make_folder(folder: Path) -> None:
    """Make the folder of a stage, where that can be.

    Raises:
        RuntimeError: nothing can be written there.

    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").open("a").close()
    except OSError as error:
        raise RuntimeError(
            f"{folder} cannot be written ({error.strerror}); give the run a folder on a disk that "
            "its nodes can write to"
        ) from error


def begin(folder: Path, config: Mapping[str, Any]) -> None:
    """Store the configuration of a stage, or compare it with the stored one.

    Raises:
        ValueError: the stage was begun with another configuration.

    """
    path = folder / "config.json"
    if not path.exists():
        provenance.write_json(path, config)
        return
    stored, now = compared(json.loads(path.read_text(encoding="utf-8"))), compared(config)
    names = sorted(stored.keys() | now.keys())
    other = [name for name in names if stored.get(name) != now.get(name)]
    if other:
        raise ValueError(
            f"{folder} was begun with another configuration ({', '.join(other)}); give "
            "the run another folder, or the old values"
        )


def read_state(folder: Path) -> str:
    """Return running, preempted, failed or finished, as a stage's folder says; "" if it is new."""
    path = folder / "state"
    return path.read_text().strip() if path.exists() else ""


def write_state(folder: Path, state: str) -> None:
    """Replace the state whole."""
    new = folder / "state.new"
    new.write_text(state + "\n")
    new.replace(folder / "state")


def output_of(folder: Path, for_stage: str) -> Path:
    """The output folder of a stage from which another one starts.

    Raises:
        ValueError: the stage has not finished.

    """
    if read_state(folder) != "finished":
        raise ValueError(
            f"stage {for_stage!r} starts from what stage {folder.name!r} makes, which has not "
            f"finished in {folder.parent}; run it first"
        )
    return folder / "output"


def append_event(folder: Path, name: str, **details: Any) -> None:
    """Add a line to the events, with the time and the job."""
    event = {
        "event": name,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "job": os.environ.get("SLURM_JOB_ID", ""),
        **details,
    }
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def write_result(folder: Path, stamp: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Write the result of a stage, and its stamp, which names the launch if there was one."""
    launch = os.environ.get(LAUNCH_VARIABLE)
    whole = {**stamp, "launch": launch} if launch else dict(stamp)
    provenance.write_json(folder / "stamp.json", whole)
    provenance.write_json(folder / "result.json", {"stamp": whole, **result})
