"""A run folder becomes what the book keeps: curves, and a small result.json with its stamp.

Of a language model a few samples are kept too: of the first step that has some, of the middle and
of the last.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from PIL import Image

from bookkit.jobs import digits
from nbkit import plots
from nbkit.runs import provenance
from nbkit.runs.metrics_file import Row
from nbkit.runs.run_folder import RunFolder, StageFolder
from nbkit.runs.samples import Sample

CURVE_POINTS = 200
NOT_PLOTTED = ("step", "seconds")
COLUMNS, PANELS = 3, 12
SAMPLES, SAMPLE_LETTERS = 3, 2000  # of a step, and of a text
STAMPED = ("config", "seeds", "device_name")


def report(run: RunFolder, folder: Path) -> list[Path]:
    """Write ``result.json`` and the figures of each stage.

    The figures go to the run's own ``plots/`` as well.

    Args:
        run: at least one of its stages has finished.
        folder: of the results that the repository keeps, as results/<label>.

    Returns:
        What was written, in `folder`.

    Raises:
        ValueError: no stage has finished, so there is no stamp; a finished one lacks its result or
            its stamp; a file cannot be read; or a figure of over 150 kB.

    """
    finished = [stage for stage in run.stages if stage.state == "finished"]
    if not finished:
        raise ValueError(
            f"{run.path}: no stage has finished ({run.state}); a result without the stamp of a "
            "finished run is not kept"
        )
    stamp = finished[-1].finished_json("stamp.json", *STAMPED)
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
    folder.mkdir(parents=True, exist_ok=True)
    provenance.write_json(folder / "result.json", result)
    written = [folder / "result.json"]
    for stage in finished:
        if len(stage.rows) > 1:
            own = stage.path / "plots"
            own.mkdir(exist_ok=True)
            for name, picture in pictures(stage):
                for path in (own / name, folder / name):
                    path.write_bytes(picture)
                written.append(folder / name)
    return written


def pictures(stage: StageFolder) -> Iterator[tuple[str, bytes]]:
    """File names and PNGs that together show all metrics of a stage."""
    names = metric_names(stage.rows)
    parts = [names[i : i + PANELS] for i in range(0, len(names), PANELS)]
    for number, part in enumerate(parts, start=1):
        words = ["curves", stage.name, str(number) if len(parts) > 1 else ""]
        yield "_".join(filter(None, words)) + ".png", draw(thin(stage.rows), part, stage.name)


def draw(rows: Sequence[Row], names: Sequence[str], title: str) -> bytes:
    """Draw some metrics against the step, as a PNG of small panels."""
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
        drawn, small = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", dpi=90)
        plt.close(figure)
    # Lines and letters need few colours, and the file is a third as large with them.
    Image.open(drawn).convert("RGB").quantize(32).save(small, format="png", optimize=True)
    picture = small.getvalue()
    if len(picture) > plots.MAX_BYTES:
        raise ValueError(
            f"{title}: a figure of {len(picture)} bytes; {plots.MAX_BYTES} may be kept"
        )
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


def chosen_samples(samples: Sequence[tuple[int, Sample]]) -> list[dict[str, Any]]:
    """A few samples of the first, the middle and the last step that has any."""
    steps = list(dict.fromkeys(step for step, _ in samples))
    shown = dict.fromkeys(steps[i] for i in (0, len(steps) // 2, -1)) if steps else {}
    found: list[dict[str, Any]] = []
    for wanted in shown:
        own = [sample for step, sample in samples if step == wanted][:SAMPLES]
        found += [
            {
                "step": wanted,
                "prompt": one.prompt[:SAMPLE_LETTERS],
                "text": one.text[:SAMPLE_LETTERS],
                "reward": _kept(one.reward),
                "parts": {name: _kept(value) for name, value in one.parts.items()},
                "advantage": _kept(one.advantage),
            }
            for one in own
        ]
    return found


def _kept(value: float | None) -> float | str | None:
    return None if value is None else digits.kept(value)


def _stage_result(stage: StageFolder) -> dict[str, Any]:
    """The result and the curves, as columns, of one stage."""
    stage.finished_json("stamp.json", *STAMPED)
    result = stage.finished_json("result.json", "stamp")
    stamp = result.pop("stamp")
    if not isinstance(stamp, dict) or any(name not in stamp for name in STAMPED):
        raise ValueError(f"{stage.path / 'result.json'}: its stamp lacks one of {STAMPED}")
    names = ["step", "seconds", *metric_names(stage.rows)]
    samples = chosen_samples(stage.samples)
    rows = thin(stage.rows)
    return {
        "result": result,
        "config": stamp["config"],
        "seeds": stamp["seeds"],
        "device_name": stamp["device_name"],
        "ranks": stamp.get("ranks"),  # the device's name counts all that the machine has
        "resumed": sum(event["event"] == "resumed" for event in stage.events),
        "curves": {
            name: [digits.kept(row[name]) if name in row else None for row in rows]
            for name in names
        },
        **({"samples": samples} if samples else {}),
    }
