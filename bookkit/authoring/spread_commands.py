"""The command `nbkit spread`: a page under several roundings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bookkit.authoring.draws import DRAWS, draws_named
from bookkit.authoring.measured import spread_findings
from bookkit.authoring.page import Page, select_pages
from bookkit.authoring.spread import Measured, measure, storable, store
from bookkit.authoring.spread_report import print_measured
from bookkit.checkout import find_root

app = typer.Typer(no_args_is_help=True)


@app.command()
def spread(
    pages: Annotated[list[Path], typer.Argument(help="Pages, as .md or .ipynb.")],
    draws: Annotated[
        str | None, typer.Option(help="Some draws only, as in as-is,MKL; stores nothing.")
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Print only.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many kernels side by side.")] = 2,
) -> None:
    """Run pages under several roundings; show and store what moved, and say what does not hold."""
    root = find_root()
    chosen = select_pages(root, pages)
    names = draws_named(draws) if draws else list(DRAWS)
    stores = not no_store and names == list(DRAWS)
    if stores:
        for page in chosen:
            storable(page)  # say it now, not after minutes
    failed = False

    def done(measured: Measured) -> None:
        nonlocal failed
        findings = list(measured.problems)
        if measured.draws is not None:
            print_measured(measured.page.name, measured.draws)
            findings += judge(measured.page, measured.draws, stores=stores)
        for finding in findings:
            typer.echo(finding)
        failed = failed or bool(findings)

    measure(chosen, names, workers=jobs, say=typer.echo, done=done)
    if failed:
        raise typer.Exit(1)


def judge(page: Page, draws: dict[str, Any], *, stores: bool) -> list[str]:
    """Store what was measured of a page, if wanted, and say what does not hold.

    The tolerances are those of the executed notebook; without one, figures are not judged.
    """
    if stores:
        store(page, draws)
    content = page.content()
    stored = page.stored()
    cells = [] if stored is None else stored["cells"]
    notebook = {"cells": cells, "metadata": {"nbkit": {"draws": draws}}}
    return [
        f"{page.name}: {problem}; {mend}"
        for problem, mend in spread_findings(page.name, notebook, content)
    ]
