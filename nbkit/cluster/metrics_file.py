"""metrics.jsonl: one line a step, appended as the run goes, cut back when it resumes."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

Row = dict[str, float]


def append_row(path: Path, row: Mapping[str, float]) -> None:
    """Append one line; a number that JSON cannot hold becomes its name, as in "nan"."""
    plain = {key: value if math.isfinite(value) else str(value) for key, value in row.items()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain) + "\n")


def read_rows(path: Path) -> list[Row]:
    """Read the lines, without a last one that was cut off while it was written.

    Raises:
        ValueError: a line that is no JSON, other than the last.

    """
    return list(_rows(path)) if path.exists() else []


def cut_after(path: Path, step: int) -> list[Row]:
    """Drop the lines after a step, which a resumed run writes anew; return those that stay."""
    kept = [row for row in read_rows(path) if row["step"] <= step]
    if path.exists():
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        new.touch()
        for row in kept:
            append_row(new, row)
        new.replace(path)
    return kept


def _rows(path: Path) -> Iterator[Row]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and not line.endswith("\n"):
            return
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}: not a line of JSON: {error.msg}") from error
        yield {key: float(value) if key != "step" else int(value) for key, value in row.items()}
