"""What was measured of a page under several roundings: how it is stored, shown and judged.

It stands in the executed notebook under `metadata.nbkit.draws`, beside the stamp:

    {"measured": date, "commit", "code": digest of the page's code, "processor", "versions",
     "draws": names of the draws, "processor_seconds": one a draw,
     "records": {name: values, one a draw},
     "asserts": [{"cell", "text", "slack": one a draw, "holds": one a draw}, …],
     "ran": the functions of the checkout that ran}

A slack is how far an assertion is from failing (negative: by how much it fails), None where it has
none; `holds` is None on a draw on which the assertion did not run.
"""

import math
from collections.abc import Sequence
from typing import Any

from bookkit.authoring.page import Content, content_of_notebook
from bookkit.authoring.record import RECORD_MIME, displayed, stored_records

DIGITS = 6
# A tolerance covers the spread twice, because another processor is another draw; an assertion
# keeps half of its slack's spread as a margin.
TOLERANCE_SPREADS = 2.0
MARGIN_SPREADS = 0.5
ROUNDING = 1e-9


def stored_draws(notebook: dict[str, Any]) -> dict[str, Any] | None:
    """What was measured of a notebook's page; None where it never was."""
    return notebook["metadata"].get("nbkit", {}).get("draws")


def spread(values: Sequence[float | None]) -> float:
    """The largest value less the smallest one; 0 where there are fewer than two."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else 0.0


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Round to 6 significant digits, or to as many more as keep the spread within a hundredth."""
    wanted = spread(values)
    for digits in range(DIGITS, 18):
        found = [None if value is None else significant(value, digits) for value in values]
        if wanted == 0 or abs(spread(found) - wanted) <= wanted / 100:
            break
    return found


def with_ranges(notebook: dict[str, Any], draws: dict[str, Any] | None) -> None:
    """Write the range of every recorded figure over the draws into its displayed text.

    A figure that is the same on all draws, to six digits, shows no range. Neither does any where
    the page was never measured, or was measured with other code; a range that stands there goes.
    The digest of the outputs changes with the texts: stamp the notebook afterwards.

    Args:
        notebook: the executed notebook; the outputs of `nbkit.record` are changed in place.
        draws: what was measured, as `stored_draws` returns it.
    """
    known = {}
    if draws is not None and draws["code"] == content_of_notebook(notebook, "").code_digest:
        known = draws["records"]
    for output in _record_outputs(notebook):
        entry = output["data"][RECORD_MIME]
        entry.pop("range", None)
        entry.pop("draws", None)
        values = known.get(entry["name"], [])
        if len({significant(value) for value in values}) > 1:
            entry["range"] = [min(values), max(values)]
            entry["draws"] = len(values)
        output["data"]["text/plain"] = displayed(entry)


def spread_findings(
    page_name: str, notebook: dict[str, Any], content: Content
) -> list[tuple[str, str]]:
    """Say what is wrong with how a page holds under several roundings.

    1. It was never measured, even if it records and asserts nothing: that it runs on every draw
       is a finding of its own.
    2. It was measured with other code of the page.
    3. A recorded figure was not measured.
    4. The tolerance of a figure is below twice its spread (the largest value less the smallest).
    5. An assertion failed on a draw.
    6. The smallest slack of an assertion is below half the spread of its slack. An assertion
       whose slack is the same on every draw may have none left.

    Args:
        page_name: the page, as the mend names it.
        notebook: the executed notebook.
        content: the text page, whose code counts.

    Returns:
        For each finding the problem and how to mend it.
    """
    again = f"run `nbkit spread {page_name}`"
    draws = stored_draws(notebook)
    if draws is None:
        return [("was never measured under several roundings", again)]
    if draws["code"] != content.code_digest:
        return [("was measured under several roundings with other code", again)]
    found = []
    for name, entry in stored_records(notebook).items():
        if name not in draws["records"]:
            found.append((f"record {name!r} was not measured under several roundings", again))
        else:
            found += _record_findings(name, entry["tol"], draws["records"][name])
    for one in draws["asserts"]:
        found += _assert_findings(one, draws["draws"])
    return found


def _record_findings(name: str, tol: float, values: list[float]) -> list[tuple[str, str]]:
    width = spread(values)
    if tol >= TOLERANCE_SPREADS * width * (1 - ROUNDING):
        return []
    problem = (
        f"record {name!r}: its tolerance {tol:g} is below twice its spread "
        f"({min(values):.6g} to {max(values):.6g})"
    )
    least = TOLERANCE_SPREADS * width
    return [(problem, f"make it at least {least:.3g}, and the prose true of the whole range")]


def _assert_findings(one: dict[str, Any], draws: list[str]) -> list[tuple[str, str]]:
    what = f"code cell {one['cell']}: `assert {one['text']}`"
    failed = [name for name, held in zip(draws, one["holds"], strict=True) if held is False]
    if failed:
        mend = "assert what holds on every draw, and the prose with it"
        return [(f"{what} fails on the draws {', '.join(failed)}", mend)]
    slacks = [slack for slack in one["slack"] or [] if slack is not None]
    width = spread(slacks)
    if not slacks or min(slacks) >= MARGIN_SPREADS * width * (1 - ROUNDING):
        return []
    problem = (
        f"{what} has no margin: its slack is {min(slacks):.3g} at the least and varies by "
        f"{width:.3g} over the draws"
    )
    return [(problem, f"leave a slack of at least {MARGIN_SPREADS * width:.3g}")]


def _record_outputs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        output
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if RECORD_MIME in output.get("data", {})
    ]


def significant(value: float, digits: int = DIGITS) -> float:
    """Round to significant digits; what is infinite or no number stays."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
