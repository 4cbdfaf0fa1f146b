"""The command `nbkit study`: runs a study, keeps its head true, says which results are stale."""

from pathlib import Path
from typing import Annotated

import typer

from bookkit.authoring.commands import report, say
from nbkit.errors import UserError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def callback() -> None:
    """Keep `study` a command by name, though it is the only one here."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def study(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The study: studies/NAME.py.")] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Repeat the head and compare, write nothing.")
    ] = False,
    head: Annotated[bool, typer.Option("--head", help="Store the head of today's code.")] = False,
    draws: Annotated[
        bool,
        typer.Option("--draws", help="The same under every rounding; store and print the spread."),
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="List results that ran other code than today's.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every stamp with its commit.")
    ] = False,
    backfill: Annotated[
        bool,
        typer.Option("--backfill", help="Note the code of old results, from their commits."),
    ] = False,
) -> None:
    """Run a study on one thread and store its stamped result in studies/results.

    What stands behind the name and is not listed below goes to the study, as `--jobs 8`.
    """
    from bookkit.checkout import find_root

    root = find_root()
    if stale or verify or backfill:
        if name:
            raise UserError("--stale, --verify and --backfill are of all results; give no name")
        if backfill:
            _backfill(root)
        if stale:
            _list_stale(root)
        if verify:
            _verify(root)
        return
    if not name:
        raise UserError("say which study, as in `nbkit study reinforce_text`")
    _of_one(root, known_study(root, name), context.args, check=check, head=head, draws=draws)


def known_study(root: Path, name: str) -> str:
    """The name of a study, however it was typed.

    Raises:
        UserError: there is none of that name.

    """
    name = name.removesuffix(".py").removeprefix("studies/")
    names = sorted(path.stem for path in (root / "studies").glob("[!_]*.py"))
    if name not in names:
        listed = ", ".join(names) or "none"
        raise UserError(f"there is no study {name!r}; the studies are: {listed}")
    return name


def _of_one(
    root: Path, name: str, words: list[str], *, check: bool, head: bool, draws: bool
) -> None:
    from bookkit.authoring.studies import run_script, store_head

    if check:
        run_script(root, name, "--check")
        say(f"studies/heads/{name}.json: agrees")
    elif head or draws:
        for line in store_head(root, name, spread=draws):
            say(line)
    else:
        run_script(root, name, "--out", str(root / "studies/results" / f"{name}.json"), *words)
        say(f"studies/results/{name}.json: written")
        say(f"Now store its head: nbkit study {name} --draws")


def _list_stale(root: Path) -> None:
    from bookkit.authoring.results import Results

    results = Results(root)
    states = [(path, results.state(path, stamp)) for path, stamp in results.files()]
    for path, state in states:
        if state.is_stale or not state.known:
            say(f"{path.relative_to(root).as_posix()}: {state}")
    counts = {
        "measured with this code": sum(s.known and not s.is_stale for _, s in states),
        "stale": sum(s.is_stale for _, s in states),
        "not noted": sum(not s.known for _, s in states),
    }
    say(", ".join(f"{count} {what}" for what, count in counts.items()))


def _verify(root: Path) -> None:
    from bookkit.authoring.verify import verify_stamps

    found = verify_stamps(root)
    for finding in found:
        if not finding.is_error:
            say(f"note: {finding}")
    report([f for f in found if f.is_error], "no stamp says what is not so")


def _backfill(root: Path) -> None:
    from bookkit.authoring.backfill import backfill
    from bookkit.authoring.results import RECORDED

    for line in backfill(root):
        say(line)
    say(f"{RECORDED}: written")
