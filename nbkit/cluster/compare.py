"""Two runs side by side: what was set differently, where they ran, and what came out."""

from collections.abc import Iterator
from typing import Any

from nbkit.cluster.run_folder import RunFolder, StageFolder

Table = list[tuple[str, str, str]]
NOT_SETTINGS = ("run_folder",)


def compare(a: RunFolder, b: RunFolder) -> Table:
    """Return rows of a name, A's value and B's value.

    Settings, packages and devices are listed only where they differ; metrics are compared at the
    last step that both have reached.

    Raises:
        ValueError: they have no stage in common.

    """
    of_b = {stage.name: stage for stage in b.stages}
    pairs = [(stage, of_b[stage.name]) for stage in a.stages if stage.name in of_b]
    if not pairs:
        raise ValueError(
            f"no stage in common: {_stages(a)} of {a.path} and {_stages(b)} of {b.path}"
        )
    table: Table = [("state", a.state, b.state)]
    table.append(("attempts", str(a.attempts), str(b.attempts)))
    table.append(("GPU hours", f"{a.gpu_hours:.2f}", f"{b.gpu_hours:.2f}"))
    if a.cost or b.cost:
        table.append(("cost", a.cost, b.cost))
    for one, other in pairs:
        prefix = f"{one.name}: " if one.name else ""
        table += [(prefix + name, left, right) for name, left, right in _stage(one, other)]
    return table


def _stage(a: StageFolder, b: StageFolder) -> Iterator[tuple[str, str, str]]:
    yield from _differences("setting", a.json("config.json"), b.json("config.json"))
    stamps = a.json("stamp.json"), b.json("stamp.json")
    for name in ("commit", "device_name", "driver", "seeds"):
        left, right = (stamp.get(name, "") for stamp in stamps)
        if left != right:
            yield name, str(left), str(right)
    yield from _differences("package", *(stamp.get("packages", {}) for stamp in stamps))
    steps = {int(row["step"]) for row in a.rows} & {int(row["step"]) for row in b.rows}
    if not steps:
        return
    last = max(steps)
    rows = [next(row for row in stage.rows if row["step"] == last) for stage in (a, b)]
    for name in dict.fromkeys((*rows[0], *rows[1])):
        if name != "step":
            left, right = (_number(row.get(name)) for row in rows)
            yield f"{name} at step {last}", left, right


def _differences(kind: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*a, *b)):
        if name not in NOT_SETTINGS and a.get(name) != b.get(name):
            yield f"{kind} {name}", str(a.get(name, "")), str(b.get(name, ""))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _stages(run: RunFolder) -> str:
    return ", ".join(stage.name or "(none)" for stage in run.stages)
