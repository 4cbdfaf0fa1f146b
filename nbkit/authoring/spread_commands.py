"""The command `nbkit spread`: a page under several roundings."""

from pathlib import Path
from typing import Annotated, Any

import typer

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
    from nbkit.authoring.draws import DRAWS, draws_named
    from nbkit.authoring.measured import spread_findings
    from nbkit.authoring.page import select_pages
    from nbkit.authoring.repository import find_root
    from nbkit.authoring.spread import measure, refuse_unexecuted, store
    from nbkit.authoring.spread_report import print_measured

    root = find_root()
    chosen = select_pages(root, pages)
    names = draws_named(draws) if draws else list(DRAWS)
    stores = not no_store and names == list(DRAWS)
    if stores:
        refuse_unexecuted(chosen)
    failed = False
    for measured in measure(chosen, names, workers=jobs, say=typer.echo):
        page = measured.page
        for problem in measured.problems:
            failed = True
            typer.echo(problem)
        if measured.draws is None:
            continue
        print_measured(page.name, measured.draws)
        if stores:
            store(page, measured.draws)
        notebook = page.stored()
        if notebook is None:
            continue
        seen: dict[str, Any] = notebook | {"metadata": {"nbkit": {"draws": measured.draws}}}
        for problem, mend in spread_findings(page.name, seen, page.content()):
            failed = True
            typer.echo(f"{page.name}: {problem}; {mend}")
    if failed:
        raise typer.Exit(1)
