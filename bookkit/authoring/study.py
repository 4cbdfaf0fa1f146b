"""Stamped results of studies and benchmarks, which pages read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbkit.runs import provenance

WATCHED = ("nbkit", "studies")


@dataclass(frozen=True)
class Study:
    """A study or a benchmark under way; ``finish`` stamps its result and writes it."""

    out: Path | None
    provenance: provenance.Provenance

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write stamp and ``result`` as JSON; an interrupted write leaves the old file whole.

        It may be called again with more of the result.
        """
        if self.out is None:
            return
        provenance.write_json(self.out, {"stamp": self.provenance.stamp(), **result})


def start_study(
    out: Path | None,
    *,
    seeds: Sequence[int],
    config: Mapping[str, Any],
    watched: Sequence[str] = WATCHED,
) -> Study:
    """Note the commit, the code that the study reaches and the time at which it starts.

    Args:
        out: where the result will stand, ``studies/results/NAME.json``; None: nowhere.
        seeds: fixed before the run.
        config: the protocol, stored and hashed in the stamp.
        watched: folders of code that belong to the run, see ``nbkit.runs.provenance.start``.

    """
    return Study(out, provenance.start(seeds=seeds, config=config, watched=watched))
