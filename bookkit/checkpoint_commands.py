"""The commands `nbkit export`, `import-model` and `build-deepspeed`."""

from pathlib import Path
from typing import Annotated

import typer

from nbkit.errors import UserError

app = typer.Typer(no_args_is_help=True)

Shards = Annotated[str, typer.Option(help="Folder in the checkpoint; values: shards_value.")]
Dtype = Annotated[str, typer.Option(help="float32 or bfloat16.")]


@app.command()
def export(run: Path, out: Path, dtype: Dtype = "float32", shards: Shards = "shards") -> None:
    """Write the newest sharded checkpoint of RUN as a Hugging Face folder OUT.

    RUN is the folder that holds `checkpoints`: of a job with stages, that of a stage.
    """
    from nbkit.parallel.export import export_run

    if dtype not in ("float32", "bfloat16"):
        raise UserError(f"--dtype is {dtype!r}; choose float32 or bfloat16")
    try:
        checkpoint = export_run(run, out, dtype=dtype, shards=shards)
    except (ValueError, FileNotFoundError) as error:
        raise UserError(str(error)) from None
    typer.echo(f"{checkpoint} is now {out}; from_pretrained reads it.")


@app.command()
def import_model(folder: Path, run: Path) -> None:
    """Write the Hugging Face FOLDER as step 0 of a new RUN, for any back-end."""
    from nbkit.parallel.export import import_model as write

    try:
        checkpoint = write(folder, run)
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None
    typer.echo(f"{folder} is now {checkpoint}.")


@app.command()
def build_deepspeed(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Compile DeepSpeed's helpers into the project's cache. A second call takes seconds.

    The helper for disks is among them where libaio is installed; it takes minutes.
    """
    from nbkit.parallel.deepspeed_setup import CACHE, build, nvme_ready

    typer.echo(f"{', '.join(build(device, nvme=nvme_ready()))} in {CACHE}")
    if not nvme_ready():
        typer.echo("The helper for disks needs libaio-dev, so 'zero3-nvme' cannot be used here.")
