"""metrics.jsonl: one line a step, appended as the run goes, cut back when it resumes."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, float]


def append_row(path: Path, row: Mapping[str, float]) -> None:
    """Append one line; a number that JSON cannot hold becomes its name, as in "nan"."""
    plain = {key: value if math.isfinite(value) else str(value) for key, value in row.items()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain) + "\n")


def read_rows(path: Path) -> list[Row]:
    """Read the lines, without a last one that was cut off while it was written.

    Raises:
        ValueError: a line that is no row of numbers with a step, other than the last.

    """
    return [_row(path, number, line) for number, line in whole_lines(path)]


def whole_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a file with a JSON object a line, without a last one that was cut off.

    Yields:
        the line's number, from 1, and what it says; nothing if there is no file.

    Raises:
        ValueError: a line that is no JSON object, other than a last one without its end.

    """
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return  # only the last can be so
        try:
            content = json.loads(line)
        except ValueError as error:  # also bytes that are no UTF-8
            raise ValueError(f"{path}:{number}: not a line of JSON: {error}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{path}:{number}: a line here is a mapping of names to values")
        yield number, content


def drop_half_line(path: Path) -> None:
    """Take away a last line that was cut off, so that the next one does not hang on to it."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        new = path.with_name(path.name + ".new")
        new.write_bytes(content[: content.rfind(b"\n") + 1])
        new.replace(path)


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


def _row(path: Path, number: int, content: Mapping[str, Any]) -> Row:
    try:
        row = {key: float(value) for key, value in content.items()}
        return row | {"step": int(content["step"])}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}:{number}: a row is a mapping of names to numbers, with a step"
        ) from error
