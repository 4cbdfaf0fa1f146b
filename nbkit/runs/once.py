"""What a run measures before its first step: made once, and read again when the run goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from nbkit.runs import provenance
from nbkit.runs.ranks import any_rank

# Found in the run folder beside config.json, as NAME.json.
Made = dict[str, Any]


class Folder(Protocol):
    """As much of a ``nbkit.runs.run.Run`` as is needed here."""

    @property
    def folder(self) -> Path | None:
        """Of this stage, or None."""
        ...

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that writes."""
        ...

    def stop_if_asked(self) -> None:
        """Leave if the run has been asked to stop."""
        ...


def once(run: Folder, name: str, make: Callable[[], Made]) -> Made:
    """What ``make`` returned when the run first came here; every rank calls this.

    Call it before the run reads a checkpoint: what is made then is of the model that it began with.

    Args:
        run: without a folder nothing is kept, and it is made each time.
        name: of the file in the run's folder, without its ending.
        make: called on every rank or on none; returns plain data, the same on every rank.

    """
    if run.folder is None:
        return make()
    path = run.folder / f"{name}.json"
    if any_rank(path.exists()):
        found: Made = json.loads(path.read_text(encoding="utf-8"))
        return found
    run.stop_if_asked()
    made = make()
    if run.is_main:
        provenance.write_json(path, made)
    run.stop_if_asked()
    return made
