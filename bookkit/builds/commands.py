"""The command `nbkit build`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)
CAPSTONE, VERIFY = "capstone", "verify"


@app.command()
def build(
    which: Annotated[
        str | None,
        typer.Argument(help="The chapter, for example 12, or `capstone`. Default: list all."),
    ] = None,
    what: Annotated[
        str | None,
        typer.Argument(help="Of the capstone: `verify`, on several pupils that nobody has seen."),
    ] = None,
    solution: Annotated[bool, typer.Option(help="Judge the book's own solution.")] = False,
    stage: Annotated[
        list[str] | None, typer.Option(help="Judge only this stage, for example probes.")
    ] = None,
    films: Annotated[bool, typer.Option(help="Record a film of the agent.")] = True,
    keep: Annotated[
        bool, typer.Option(help="With --solution or --library: store what was measured.")
    ] = False,
    library: Annotated[
        bool, typer.Option(help="Run the library on the build's task instead of a file.")
    ] = False,
    entry: Annotated[
        Path | None, typer.Option(help="Of the capstone: check this entry of somebody else.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the capstone: what your entry is called.")
    ] = None,
    book: Annotated[
        str | None, typer.Option(help="Of the capstone: run the book's file of this name.")
    ] = None,
    unprotected: Annotated[
        bool, typer.Option(help="Run the file without a sandbox where this machine has none.")
    ] = False,
) -> None:
    """Run your own agent against the judge: budget, fresh seeds, score, curves and film."""
    from bookkit.builds.desk import standing
    from nbkit.errors import UserError

    if which is None:
        print("\n".join(standing()))
    elif which == CAPSTONE:
        if what not in (None, VERIFY):
            raise UserError(f"the capstone knows `{VERIFY}` and nothing else; got {what!r}")
        _capstone(what, entry, name, book, keep=keep, unprotected=unprotected)
    elif not which.isdecimal() or what is not None:
        raise UserError(f"name a chapter, as in `nbkit build 12`, or `{CAPSTONE}`; got {which!r}")
    elif library:
        _library(int(which), keep=keep)
    else:
        _number(int(which), solution, tuple(stage or ()), films, keep=keep, unprotected=unprotected)


def _number(
    number: int,
    solution: bool,
    stages: tuple[str, ...],
    films: bool,
    *,
    keep: bool,
    unprotected: bool,
) -> None:
    from bookkit.builds.desk import attempt
    from bookkit.builds.reference import keep as store
    from bookkit.builds.report import as_text
    from nbkit.runs.root import ROOT

    verdict, written = attempt(
        number, solution=solution, films=films, stages=stages, allow_unprotected=unprotected
    )
    print(as_text(verdict))
    if keep and solution:
        store(verdict)
    for path in written:
        print(f"  written: {path.relative_to(ROOT)}")
    if not verdict.passed:
        raise typer.Exit(1)


def _library(number: int, *, keep: bool) -> None:
    from bookkit.builds.libraries import measure
    from bookkit.builds.registry import get_build

    for title, found in measure(get_build(number), keep=keep).items():
        print(f"{title}: {found['label']}: {found['said']}")


def _capstone(
    what: str | None,
    entry: Path | None,
    name: str | None,
    book: str | None,
    *,
    keep: bool,
    unprotected: bool,
) -> None:
    from bookkit.builds.capstone import desk, report
    from bookkit.builds.capstone.board import board, place_of
    from nbkit.runs.root import ROOT

    if entry is not None:
        faults = desk.check(entry, allow_unprotected=unprotected)
        print("\n".join(f"✘ {fault}" for fault in faults) or "✔ the entry holds")
        if faults:
            raise typer.Exit(1)
        return
    source = desk.source_at(desk.own_file(book))
    if what is None:
        (outcome,) = desk.run(source, count=1, allow_unprotected=unprotected, say=lambda _: None)
        print(report.of_run(outcome))
        print(f"`nbkit build {CAPSTONE} {VERIFY}` says where this stands on the board.")
        return
    called, stored = name or book or "mine", keep and book is not None
    made, _ = desk.verify(called, source, allow_unprotected=unprotected, keep=stored)
    known = board()
    others = [one for one in known if one.name != made.name]
    print(report.as_text(sorted([*others, made], key=lambda one: -one.accuracy)))
    print(place_of(made, known))
    if book is None:
        path, passed = desk.store(made)
        print(f"written: {path.relative_to(ROOT)}; it holds your file, for `--entry`")
        sign, above = ("✔", "above") if passed else ("✘", "not above")
        print(f"{sign} {above} the book's {desk.FIRST}")
        if not passed:
            raise typer.Exit(1)


@app.callback()
def _group() -> None:
    """Keep the command's name also while there is only one."""
