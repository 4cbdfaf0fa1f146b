"""`nbkit conformance LIBRARY`: which conventions a library follows, and which cases it fails."""

import io
import json
import logging
import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from nbkit.errors import UserError

app = typer.Typer(add_completion=False)


@app.callback()
def _root() -> None:
    """Hold `conformance` as a command of its own."""


@app.command()
def conformance(
    library: Annotated[
        str,
        typer.Argument(
            help="ours, trl, sb3, torchrl, verl, openrlhf, skyrl, or your_module:YourAdapter."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the cases on an installed library. Exit status 1 if any fails."""
    from bookkit.conformance.libraries import load_adapter
    from bookkit.conformance.run import check

    with quiet():
        try:
            adapter = load_adapter(library)
        except ValueError as error:
            raise UserError(str(error)) from error
        except ImportError as error:
            raise UserError(
                f"{library} cannot be imported here ({error}); install it, or run `make parity`, "
                "which makes an environment for the libraries that do not fit beside each other"
            ) from error
        findings = check(adapter)
    report = {
        "library": adapter.name or library,
        "version": installed_version(adapter.package),
        "python": platform.python_version(),
        "torch": installed_version("torch"),
        "findings": [finding.as_row() for finding in findings],
    }
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _print(report)
    if any(finding.failed for finding in findings):
        raise typer.Exit(1)


def installed_version(package: str) -> str:
    """The version of a distribution, or "unknown"."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return "unknown"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' own notices (accelerators, telemetry, deprecations) off the report."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _short(value: Any) -> str:
    """A value in four digits; seven equal ones are as clear as one."""
    if isinstance(value, list):
        shown = [_short(item) for item in value[:4]]
        return f"[{', '.join(shown)}{', …' if len(value) > 4 else ''}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    by_status: dict[str, list[dict[str, Any]]] = {}
    for row in report["findings"]:
        by_status.setdefault(row["status"], []).append(row)
    title = f"{report['library']} {report['version']}, torch {report['torch']}"

    followed = Table(title=f"{title}: conventions", title_justify="left", box=None)
    for column in ("case", "question", "answer"):
        followed.add_column(column, overflow="fold")
    for row in by_status.get("convention", []):
        followed.add_row(row["case"], row["title"], row["meaning"])
    console.print(followed)

    bad = [row for status in ("wrong", "unknown", "error") for row in by_status.get(status, [])]
    if bad:
        failed = Table(title="Cases that it fails", title_justify="left", box=None)
        for column in ("case", "question", "what the answer means", "answer", "source"):
            failed.add_column(column, overflow="fold")
        for row in bad:
            failed.add_row(
                row["case"], row["title"], row["meaning"], _short(row["value"]), row["source"]
            )
        console.print(failed)
    counts = {status: len(rows) for status, rows in by_status.items()}
    console.print(
        f"{counts.get('right', 0)} right, {counts.get('convention', 0)} conventions, "
        f"{len(bad)} failed, {counts.get('not provided', 0)} not provided"
    )
