"""How long the book's own file takes to pass: stored, with what it was measured on."""

import json
from dataclasses import replace
from typing import Any

from bookkit.authoring.proof import proof_context
from bookkit.builds.verdict import Build, Curve, Finding, Picture, Verdict
from nbkit.errors import UserError
from nbkit.runs.json_file import read_json
from nbkit.runs.root import ROOT

POINTS = 40  # of a stored curve
FILE = "solutions/builds/measured.json"


def keep(verdict: Verdict) -> None:
    """Store scores and processor seconds of a solution that passed.

    Raises:
        UserError: it did not pass, so there is no time to pass.

    """
    if not verdict.passed:
        raise UserError(
            f"build {verdict.build.number}: the solution did not pass, so no time was stored"
        )
    found = {
        "stages": {
            finding.title: {
                "said": finding.sentence,
                "used": f"{finding.used:,} {finding.unit}",
                "processor_seconds": round(finding.processor_seconds, 1),
                "curve": _thinned(finding),
            }
            for finding in verdict.findings
        },
        **proof_context(ROOT),
    }
    _store(verdict.build, found)


def keep_library(build: Build, found: dict[str, Any]) -> None:
    """Store what the library has reached: "stages" by title, and what it ran on."""
    _store(build, {"library": found})


def _store(build: Build, found: dict[str, Any]) -> None:
    """Put some keys of a build into the file; the others stay."""
    path = ROOT / FILE
    content = read_json(path) if path.exists() else {}
    content[build.name] = {**content.get(build.name, {}), **found}
    text = json.dumps(dict(sorted(content.items())), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _thinned(finding: Finding) -> list[list[float]]:
    """Some points of the solution's curve, the last among them; none where nothing is drawn."""
    points = finding.picture.curves[0].points if finding.picture is not None else ()
    every = max(1, len(points) // POINTS)
    return [[x, round(y, 3)] for x, y in [*points[::every], *points[-1:]]]


def beside(build: Build, finding: Finding) -> Picture | None:
    """The curves of a stage, with those of the book's own file and the library, where stored."""
    if finding.picture is None:
        return None
    ours, theirs = (stored(build) or {}).get("stages", {}), library(build, finding.title)
    added = []
    if finding.title in ours:
        added.append(Curve("the book's own file", _points(ours[finding.title])))
    if theirs is not None and theirs["curve"]:
        added.append(Curve(theirs["label"], _points(theirs)))
    first, *others = finding.picture.curves
    return replace(finding.picture, curves=(first, *added, *others))


def _points(entry: dict[str, Any]) -> tuple[tuple[float, float], ...]:
    return tuple((x, y) for x, y in entry["curve"])


def library(build: Build, stage: str) -> dict[str, Any] | None:
    """What the library has reached in a stage: label, said, curve; None: nothing is stored."""
    found = (stored(build) or {}).get("library", {}).get("stages", {})
    return found.get(stage)


def stored(build: Build) -> dict[str, Any] | None:
    """What was stored of a build; None if nothing was."""
    path = ROOT / FILE
    return read_json(path).get(build.name) if path.exists() else None


def seconds(build: Build, stage: str) -> float | None:
    """The processor seconds that the solution took for a stage; None if that is not stored."""
    found = stored(build)
    if found is None or stage not in found["stages"]:
        return None
    return float(found["stages"][stage]["processor_seconds"])
