"""Prints what `nbkit spread` measured: one row a figure and an assertion, one column a draw."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bookkit.authoring.measured import spread

WIDTH = 200


def print_measured(page_name: str, draws: dict[str, Any]) -> None:
    """Print the table of one page.

    Args:
        page_name: the page.
        draws: what was measured, in the form that is stored.
    """
    table = Table(title=page_name, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("cell", justify="right")
    table.add_column("record or assertion", max_width=70)
    for name in [*draws["draws"], "min", "max", "spread"]:
        table.add_column(name, justify="right")
    table.add_row("", "seconds of processor time", *_cells(draws["processor_seconds"]))
    for name, values in draws["records"].items():
        table.add_row("", f"record {name}", *_cells(values), *_summary(values))
    for one in draws["asserts"]:
        if one["slack"] is None:
            shown, summary = [""] * len(one["holds"]), [""] * 3
        else:
            shown, summary = _cells(one["slack"]), _summary(one["slack"])
        verdicts = [_verdict(held, text) for held, text in zip(one["holds"], shown, strict=True)]
        table.add_row(str(one["cell"]), one["text"], *verdicts, *summary)
    console = Console(width=WIDTH, highlight=False, markup=False)
    console.print(table)


def _verdict(held: bool | None, text: str) -> str:
    if held is None:
        return "not run"
    if held:
        return text or "holds"
    return f"FAILS {text}".rstrip()


def _cells(values: Sequence[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.4g}" for value in values]


def _summary(values: Sequence[float | None]) -> list[str]:
    known = [value for value in values if value is not None]
    return _cells([min(known), max(known), spread(known)]) if known else [""] * 3
