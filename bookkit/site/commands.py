"""The commands `nbkit book build`, `serve` and `pdf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bookkit.site.build import SiteError, build_site, project_root
from bookkit.site.serve import serve_site

app = typer.Typer(help="Render the book from its stored outputs.", no_args_is_help=True)

Project = Annotated[
    Path | None,
    typer.Option(
        help="Folder of myst.yml; found upwards from here if left out.", show_default=False
    ),
]


@app.command()
def build(
    project: Project = None,
    strict: Annotated[bool, typer.Option(help="Treat every warning as an error.")] = True,
) -> None:
    """Render the site to _build/html. Nothing is executed."""
    from bookkit.site.behind import behind_lines

    try:
        root = project_root(project)
        site = build_site(root, strict=strict)
    except SiteError as error:
        raise _failed(error) from None
    for line in behind_lines(root):
        typer.echo(line)
    typer.echo(
        f"\nThe book is built. Open {site / 'index.html'} in a browser, or run `make serve`."
    )


@app.command()
def serve(
    project: Project = None,
    port: Annotated[int, typer.Option(help="First port to try.")] = 8000,
) -> None:
    """Render the site, serve it on this machine, and render anew when a source changes."""
    try:
        serve_site(project_root(project), port, typer.echo)
    except SiteError as error:
        raise _failed(error) from None


@app.command()
def pdf(
    project: Project = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write; _build/book.pdf if left out.")
    ] = None,
) -> None:
    """Render the site and print the whole of it to one PDF. Needs Chromium."""
    try:
        from bookkit.site.pdf import print_book  # pypdf is slow to import, and only this needs it

        root = project_root(project)
        target = output or root / "_build" / "book.pdf"
        count = print_book(build_site(root), target, typer.echo)
    except SiteError as error:
        raise _failed(error) from None
    typer.echo(f"The book is printed: {target} ({count} pages).")


@app.command()
def pictures(
    project: Project = None,
    check: Annotated[
        bool, typer.Option(help="Only say which drawings are stale; fail if any.")
    ] = False,
) -> None:
    """Draw the pictures of the chapters and the still pictures of interactive figures."""
    from bookkit.site.pictures.gallery import PICTURES, stale_pictures, write_pictures

    try:
        folder = project_root(project) / "book" / "pictures"
    except SiteError as error:
        raise _failed(error) from None
    if not check:
        changed = write_pictures(folder)
        typer.echo(f"{len(PICTURES)} drawings, {len(changed)} written.")
        return
    stale = stale_pictures(folder)
    if stale:
        raise _failed(
            SiteError(
                f"Stale drawings: {', '.join(stale)}. Run `nbkit book pictures` and commit them."
            )
        )
    typer.echo(f"{len(PICTURES)} drawings are as they are drawn.")


def _failed(error: SiteError) -> typer.Exit:
    typer.echo(str(error), err=True)
    return typer.Exit(1)
