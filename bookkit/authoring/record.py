"""`nbkit.record`: the key figures of a page, stored in its outputs and compared by `make test`."""

import json
import math
import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, SupportsFloat

RECORD_MIME = "application/vnd.nbkit.record+json"
PAGE_VARIABLE = "NBKIT_PAGE"
MODE_VARIABLE = "NBKIT_RECORD"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class RecordMismatch(AssertionError):  # noqa: N818 - reads as a verdict, like CheckFailed
    """A key figure of the page is missing from its stored outputs, or has left its tolerance."""


def record(name: str, value: SupportsFloat, tol: float) -> None:
    """Display a key figure of the page; its stored output is the value that CI compares with.

    In a reader's own session the figure is only displayed. Under `make test` (`NBKIT_RECORD` is
    `compare` and `NBKIT_PAGE` is the executed page) the value is compared with the stored one.

    Args:
        name: what the figure is, unique on the page, for example `keyword rate after training`.
        value: one finite number; a tensor or an array of one element counts.
        tol: the largest absolute difference from the stored value that still counts as agreement,
            in the units of the value; 0 asks for equality.

    Raises:
        ValueError: the name is empty, or the value or the tolerance is not a finite number.
        RecordMismatch: only when comparing: the stored page has no such figure, or it differs by
            more than the tolerance.
    """
    entry = _entry(name, value, tol)
    _display(entry)
    if os.environ.get(MODE_VARIABLE) == "compare":
        page = os.environ.get(PAGE_VARIABLE)
        if not page:
            raise RecordMismatch(
                f"record {name!r}: {MODE_VARIABLE} is 'compare' but {PAGE_VARIABLE} is not set; "
                "set it to the path of the executed page"
            )
        compare(entry, stored_records(_read(Path(page))), page=Path(page).name)


def compare(entry: dict[str, Any], stored: dict[str, dict[str, Any]], *, page: str) -> None:
    """Compare one fresh figure with the stored ones.

    Args:
        entry: `{"name", "value", "tol"}` as recorded now.
        stored: the stored entries by name, as `stored_records` returns them.
        page: the page's name, for the message.

    Raises:
        RecordMismatch: the name is not stored, or the values differ by more than `tol`.
    """
    name, value, tol = entry["name"], entry["value"], entry["tol"]
    if name not in stored:
        raise RecordMismatch(
            f"record {name!r}: {page} stores no figure of this name; run `nbkit execute` on it"
        )
    before = stored[name]["value"]
    if not abs(value - before) <= tol:
        raise RecordMismatch(
            f"record {name!r}: {value:.6g} now, {before:.6g} stored in {page}; "
            f"they differ by {abs(value - before):.3g}, more than the tolerance {tol:g}"
        )


def stored_records(notebook: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Collect the figures stored in the outputs of a notebook (nbformat 4, as a plain dict).

    Returns:
        The entries by name, in the order of the page.

    Raises:
        RecordMismatch: one name is recorded twice, so that the stored value would be ambiguous.
    """
    found: dict[str, dict[str, Any]] = {}
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []):
            entry = output.get("data", {}).get(RECORD_MIME)
            if entry is None:
                continue
            if entry["name"] in found:
                raise RecordMismatch(
                    f"record {entry['name']!r} stands twice on the page; give each its own name"
                )
            found[entry["name"]] = entry
    return found


def displayed(entry: dict[str, Any]) -> str:
    """The text of a figure, as the reader sees it.

    Args:
        entry: `{"name", "value", "tol"}`, and where the page was measured under several roundings
            `"range": [lowest, highest]` of the figure and `"draws"`, their number.

    Returns:
        `rate: 1.02 (tolerance 2.1)` or `rate: 1.02 (0.61 to 1.6 on five roundings; tolerance 2.1)`.
    """
    tolerance = f"tolerance {entry['tol']:g}"
    if "range" in entry:
        number = entry["draws"]
        count = NUMBERS[number] if number < len(NUMBERS) else str(number)
        low, high = _bounds(*entry["range"])
        tolerance = f"{low} to {high} on {count} roundings; {tolerance}"
    return f"{entry['name']}: {entry['value']:.6g} ({tolerance})"


def _bounds(low: float, high: float) -> tuple[str, str]:
    """The bounds of a range, outwards, in as many digits as two digits of its width need."""
    step = Decimal(10) ** (math.floor(math.log10(high - low)) - 1)
    below, above = (Decimal(repr(bound)) / step for bound in (low, high))
    lowest = float(below.to_integral_value(ROUND_FLOOR) * step)
    highest = float(above.to_integral_value(ROUND_CEILING) * step)
    return f"{lowest:.10g}", f"{highest:.10g}"


def _entry(name: str, value: SupportsFloat, tol: float) -> dict[str, Any]:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"record needs a name, a non-empty string; got {name!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        shape = getattr(value, "shape", None)
        what = type(value).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ValueError(f"record {name!r}: value must be one number; got {what}") from error
    if not math.isfinite(number):
        raise ValueError(f"record {name!r}: value must be finite; got {number}")
    if not (isinstance(tol, int | float) and math.isfinite(tol) and tol >= 0):
        raise ValueError(f"record {name!r}: tol must be a finite number of at least 0; got {tol!r}")
    return {"name": name, "value": number, "tol": float(tol)}


def _display(entry: dict[str, Any]) -> None:
    text = displayed(entry)
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(text)
        return
    if get_ipython() is None:
        print(text)
    else:
        display({"text/plain": text, RECORD_MIME: entry}, raw=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordMismatch(
            f"the executed page {path} does not exist; run `nbkit execute` to make it"
        ) from error
