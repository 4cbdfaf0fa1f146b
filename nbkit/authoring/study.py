"""Studies: long experiments whose stamped result a page reads and whose beginning CI repeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbkit import provenance


@dataclass(frozen=True)
class Study:
    """A study under way; ``finish`` stamps its result and writes it."""

    out: Path
    provenance: provenance.Provenance

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write stamp and ``result`` as JSON; an interrupted write leaves the old file whole."""
        provenance.write_json(self.out, {"stamp": self.provenance.stamp(), **result})


def start_study(out: Path, *, seeds: Sequence[int], config: Mapping[str, Any]) -> Study:
    """Note the commit and the time at which a study starts.

    Args:
        out: where the result will stand, ``studies/results/NAME.json``.
        seeds: fixed before the run.
        config: the protocol, stored and hashed in the stamp.

    """
    watched = ("nbkit", "studies/*.py")
    return Study(out, provenance.start(seeds=seeds, config=config, watched=watched))


class StudyMismatch(AssertionError):  # noqa: N818 - a verdict, like RecordMismatch
    """The beginning of a study no longer gives the stored figures."""


def compare_head(stored: Sequence[float], fresh: Sequence[float], tol: float) -> None:
    """Compare the first figures of a study with the stored ones.

    Args:
        stored: figures from the result file.
        fresh: the same figures, computed now.
        tol: the largest absolute difference that counts as agreement.

    Raises:
        StudyMismatch: another number of figures, or one outside the tolerance.

    """
    if len(stored) != len(fresh):
        raise StudyMismatch(f"head: {len(fresh)} figures now, {len(stored)} stored; run the study")
    for i, (old, new) in enumerate(zip(stored, fresh, strict=True)):
        if not abs(old - new) <= tol:
            raise StudyMismatch(
                f"head: figure {i} is {new:.6g} now and {old:.6g} in the stored result, more than "
                f"the tolerance {tol:g} apart; run the study again"
            )
