"""A run folder becomes what the book keeps: curves, and a small result.json with its stamp."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from nbkit import plots, provenance
from nbkit.cluster.metrics_file import Row
from nbkit.cluster.run_folder import RunFolder, StageFolder

CURVE_POINTS = 200
NOT_PLOTTED = ("step", "seconds")
COLUMNS = 3


def report(run: RunFolder, folder: Path) -> list[Path]:
    """Write ``result.json`` and a figure a stage.

    The figures go to the run's own ``plots/`` as well.

    Args:
        run: at least one of its stages has finished.
        folder: of the results that the repository keeps, as results/<label>.

    Returns:
        What was written, in `folder`.

    Raises:
        ValueError: no stage has finished, so there is no stamp; or a figure of over 150 kB.

    """
    finished = [stage for stage in run.stages if stage.state == "finished"]
    if not finished:
        raise ValueError(
            f"{run.path}: no stage has finished ({run.state}); a result without the stamp of a "
            "finished run is not kept"
        )
    folder.mkdir(parents=True, exist_ok=True)
    stamp = finished[-1].json("stamp.json")
    result = {
        "stamp": stamp,
        "device_name": stamp["device_name"],
        "job": run.facts.get("job", ""),
        "variant": run.facts.get("variant", ""),
        "state": run.state,
        "attempts": run.attempts,
        "hours": round(run.hours, 4),
        "gpu_hours": round(run.gpu_hours, 4),
        "cost": run.cost,
        "stages": {stage.name or "all": _stage_result(stage) for stage in finished},
    }
    provenance.write_json(folder / "result.json", result)
    written = [folder / "result.json"]
    for stage in finished:
        if len(stage.rows) > 1:
            own = stage.path / "plots"
            own.mkdir(exist_ok=True)
            name = f"curves_{stage.name}.png" if stage.name else "curves.png"
            picture = draw(stage.rows, stage.name)
            for path in (own / name, folder / name):
                path.write_bytes(picture)
            written.append(folder / name)
    return written


def draw(rows: Sequence[Row], title: str) -> bytes:
    """Draw every metric against the step, as a PNG of small panels."""
    import io

    names = metric_names(rows)
    height = -(-len(names) // COLUMNS)
    with plots.style():
        figure, axes = plt.subplots(height, COLUMNS, figsize=(9.6, 2.2 * height), squeeze=False)
        for axis, name in zip(axes.flat, names, strict=False):
            points = [(row["step"], row[name]) for row in rows if name in row]
            axis.plot(*zip(*points, strict=True), lw=1.2)
            axis.set(title=name, xlabel="step")
        for axis in axes.flat[len(names) :]:
            axis.set_axis_off()
        if title:
            figure.suptitle(title)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None})
        plt.close(figure)
    picture = buffer.getvalue()
    if len(picture) > plots.MAX_BYTES:
        raise ValueError(f"figure: {len(picture)} bytes, at most {plots.MAX_BYTES}; log less")
    return picture


def metric_names(rows: Sequence[Row]) -> list[str]:
    """The metrics that some row has, in order of appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in NOT_PLOTTED]


def thin(rows: Sequence[Row], points: int = CURVE_POINTS) -> list[Row]:
    """At most so many rows, evenly spaced, with the first and the last."""
    if len(rows) <= points:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (points - 1))] for i in range(points)]


def _stage_result(stage: StageFolder) -> dict[str, Any]:
    """The result and the curves, as columns, of one stage."""
    result = stage.json("result.json")
    stamp = result.pop("stamp")
    names = ["step", "seconds", *metric_names(stage.rows)]
    rows = thin(stage.rows)
    return {
        "result": result,
        "config": stamp["config"],
        "seeds": stamp["seeds"],
        "device_name": stamp["device_name"],
        "resumed": sum(event["event"] == "resumed" for event in stage.events),
        "curves": {
            name: [_short(row[name]) if name in row else None for row in rows] for name in names
        },
    }


def _short(value: float) -> float | str:
    """Six significant digits, as many as a curve needs; NaN by its name, as JSON has none."""
    short = float(f"{value:.6g}")
    return short if abs(short) < float("inf") else str(short)
