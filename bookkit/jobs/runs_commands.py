"""`nbkit runs compare A B`."""

from pathlib import Path
from typing import Annotated

import typer

from nbkit.errors import UserError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Hold `compare` as a command of its own."""


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A run folder, or a recorded result.")],
    b: Annotated[Path, typer.Argument(help="Another.")],
) -> None:
    """Say what two runs were set to differently, where they ran, and what came out."""
    from bookkit.jobs.compare import compare as rows_of
    from bookkit.jobs.recorded import open_side
    from bookkit.jobs.table import text_table

    try:
        rows = rows_of(open_side(a), open_side(b))
    except ValueError as error:
        raise UserError(str(error)) from error
    typer.echo(text_table([("", str(a), str(b)), *rows]))
