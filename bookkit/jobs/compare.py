"""Two runs side by side: what was set differently, where they ran, and what came out."""

from collections.abc import Iterator
from typing import Any

from bookkit.jobs import digits
from bookkit.jobs.recorded import Record, Side

Table = list[tuple[str, str, str]]
NOT_SETTINGS = ("run_folder", "out")
WIDTH = 60


def compare(a: Side, b: Side) -> Table:
    """Return rows of a name, A's value and B's value.

    Settings, packages, devices and results are listed only where they differ; metrics are compared
    at the last step that both have recorded.

    Raises:
        ValueError: they have no stage in common.

    """
    of_b = {record.name: record for record in b.records}
    pairs = [(record, of_b[record.name]) for record in a.records if record.name in of_b]
    if not pairs and a.path.is_file() and b.path.is_file() and len(a.records) == len(of_b) == 1:
        pairs = [(a.records[0], b.records[0])]  # two files are taken at their word
    if not pairs:
        raise ValueError(
            f"no stage in common: {_stages(a)} of {a.path} and {_stages(b)} of {b.path}"
        )
    names = dict.fromkeys((*a.facts, *b.facts))
    facts = [(name, a.facts.get(name, ""), b.facts.get(name, "")) for name in names]
    table: Table = [row for row in facts if row[1] or row[2]]
    for one, other in pairs:
        prefix = f"{one.name}: " if one.name and one.name == other.name else ""
        table += [(prefix + name, left, right) for name, left, right in _stage(one, other)]
    return table


def _stage(a: Record, b: Record) -> Iterator[tuple[str, str, str]]:
    yield from _differences("setting", a.config, b.config)
    for name in ("commit", "device_name", "ranks", "driver", "seeds"):
        left, right = a.stamp.get(name, ""), b.stamp.get(name, "")
        if left != right:
            yield name, _cut(str(left)), _cut(str(right))
    yield from _differences("package", a.stamp.get("packages", {}), b.stamp.get("packages", {}))
    yield from _results(a.result, b.result)
    steps = {int(row["step"]) for row in a.rows} & {int(row["step"]) for row in b.rows}
    if not steps:
        return
    last = max(steps)
    rows = [next(row for row in record.rows if row["step"] == last) for record in (a, b)]
    for name in dict.fromkeys((*rows[0], *rows[1])):
        if name != "step":
            left, right = (_shown(row.get(name)) for row in rows)
            yield f"{name} at step {last}", left, right


def _results(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Single values that differ; lists of numbers are curves, and are left out."""
    left, right = dict(_leaves(a)), dict(_leaves(b))
    names = list(dict.fromkeys((*left, *right)))
    differ = [name for name in names if _shown(left.get(name)) != _shown(right.get(name))]
    for name in differ:
        yield f"result {name}", _cut(_shown(left.get(name))), _cut(_shown(right.get(name)))
    equal = len(names) - len(differ)
    if equal:
        yield "results that are equal", str(equal), str(equal)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The single values of a tree of mappings and lists of mappings, by their dotted names.

    An entry of a list goes by its name, or its setting's, so that lists of different entries meet.
    """
    if isinstance(value, dict):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, list):
        entries = [(_entry_name(part), part) for part in value if isinstance(part, dict)]
        names = [name for name, _ in entries]
        by_name = all(names) and len(set(names)) == len(names)
        parts = [(name if by_name else str(i), part) for i, (name, part) in enumerate(entries)]
    else:
        yield name, value
        return
    for key, part in parts:
        yield from _leaves(part, f"{name}.{key}" if name else key)


def _entry_name(entry: dict[str, Any]) -> str:
    """The name of an entry of a list, or of its setting; "" if it has none."""
    setting = entry.get("setting")
    for holder in (entry, setting if isinstance(setting, dict) else {}):
        if isinstance(holder.get("name"), str):
            return str(holder["name"])
    return ""


def _cut(text: str) -> str:
    """At most WIDTH letters, so that a long value does not push the other side off the screen."""
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _differences(kind: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*a, *b)):
        if name not in NOT_SETTINGS and a.get(name) != b.get(name):
            yield f"{kind} {name}", _cut(str(a.get(name, ""))), _cut(str(b.get(name, "")))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return digits.shown(value)


def _stages(side: Side) -> str:
    return ", ".join(record.name or "(none)" for record in side.records)
