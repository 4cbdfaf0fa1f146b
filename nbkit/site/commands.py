"""The commands `nbkit book build`, `serve` and `pdf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nbkit.site.build import SiteError, build_site, project_root

app = typer.Typer(help="Render the book from its stored outputs.", no_args_is_help=True)

Project = Annotated[
    Path | None,
    typer.Option(help="Folder of myst.yml; found upwards from here if left out.", show_default=False),
]


@app.command()
def build(
    project: Project = None,
    strict: Annotated[bool, typer.Option(help="Treat every warning as an error.")] = True,
) -> None:
    """Render the site to _build/html. Nothing is executed."""
    try:
        site = build_site(project_root(project), strict=strict)
    except SiteError as error:
        raise _failed(error) from None
    typer.echo(f"\nThe book is built. Open {site / 'index.html'} in a browser, or run `make serve`.")


def _failed(error: SiteError) -> typer.Exit:
    typer.echo(str(error), err=True)
    return typer.Exit(1)
