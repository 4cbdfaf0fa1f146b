"""Studies: long experiments whose stamped result a page reads and whose beginning CI repeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbkit.runs import provenance

WATCHED = ("nbkit", "studies")


@dataclass(frozen=True)
class Study:
    """A study under way; ``finish`` stamps its result and writes it."""

    out: Path
    provenance: provenance.Provenance

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write stamp and ``result`` as JSON; an interrupted write leaves the old file whole."""
        provenance.write_json(self.out, {"stamp": self.provenance.stamp(), **result})


def start_study(out: Path, *, seeds: Sequence[int], config: Mapping[str, Any]) -> Study:
    """Note the commit, the code that the study reaches and the time at which it starts.

    Args:
        out: where the result will stand, ``studies/results/NAME.json``.
        seeds: fixed before the run.
        config: the protocol, stored and hashed in the stamp.

    """
    return Study(out, provenance.start(seeds=seeds, config=config, watched=WATCHED))
