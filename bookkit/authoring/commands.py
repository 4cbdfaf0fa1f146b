"""The commands for authors: `nbkit execute`, `stamp`, `sync`, `tangle` and the like."""

from pathlib import Path
from typing import Annotated

import typer

from nbkit.errors import UserError

app = typer.Typer(no_args_is_help=True)

Pages = Annotated[list[Path] | None, typer.Argument(help="Pages, as .md or .ipynb. Default: all.")]


@app.command()
def execute(
    pages: Pages = None,
    every: Annotated[
        bool, typer.Option("--all", help="Rerun the pages even where they are fresh.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many kernels side by side.")] = 2,
) -> None:
    """Rerun stale pages in fresh kernels and store their outputs beside them."""
    from bookkit.authoring.execute import execute as run
    from bookkit.authoring.page import find_pages, select_pages
    from bookkit.checkout import find_root

    root = find_root()
    chosen = select_pages(root, pages) if pages else find_pages(root)
    reports = run(chosen, force=every, workers=jobs, say=say)
    counts = {
        state: sum(report.state == state for report in reports)
        for state in ("run", "paired", "fresh", "failed")
    }
    say(
        f"{counts['run']} run, {counts['paired']} re-paired, {counts['fresh']} fresh, "
        f"{counts['failed']} failed"
    )
    if counts["failed"]:
        raise typer.Exit(1)


@app.command()
def stamp(
    check: Annotated[bool, typer.Option("--check", help="Name what is wrong, and fail.")] = False,
    chapter: Annotated[int | None, typer.Option(help="Only the pages of one chapter.")] = None,
) -> None:
    """Say for every page whether its outputs still belong to its text, and why not."""
    from bookkit.authoring.page import find_pages
    from bookkit.authoring.repository import chapter_number, notebooks, require_chapter
    from bookkit.authoring.stamp import age, check_orphans, check_page, processors
    from bookkit.checkout import find_root
    from nbkit.runs.provenance import processor_name

    root = find_root()
    require_chapter(root, chapter)
    pages = find_pages(root)
    chosen = [p for p in pages if chapter is None or chapter_number(p.text) == chapter]
    findings = [finding for page in chosen for finding in check_page(page)]
    if chapter is None:
        findings += check_orphans(root, pages, notebooks(root))
    for page in chosen:
        if older := age(page):
            say(f"{page.name}: its proof is old: {', '.join(older)}; `make test` runs it again")
    for processor, count in processors(chosen).items():
        if processor != processor_name():
            say(f"{count} pages were executed on another processor: {processor}")
    report(findings, f"{len(chosen)} fresh, none stale", fail=check)


@app.command()
def sync(pages: Pages = None) -> None:
    """Take what was edited in notebooks back into their text pages, losing nothing."""
    from bookkit.authoring import sync as tool
    from bookkit.authoring.page import find_pages, select_pages
    from bookkit.checkout import find_root

    root = find_root()
    names = pages or []
    old = []
    for path in names:
        if path.suffix == ".ipynb" and not path.with_suffix(".md").exists():
            say(tool.adopt(path.resolve(), root))
        else:
            old.append(path)
    problems = []
    for page in select_pages(root, old) if names else find_pages(root):
        try:
            say(tool.sync(page))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))


@app.command()
def tangle(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; name what is not current, and fail.")
    ] = False,
    chapter: Annotated[int | None, typer.Option(help="Only the jobs of one chapter.")] = None,
) -> None:
    """Write the jobs' training scripts from the cells tagged `tangle`."""
    from bookkit.authoring import tangle as tool
    from bookkit.authoring.page import find_pages
    from bookkit.authoring.repository import chapter_number, require_chapter
    from bookkit.checkout import find_root

    root = find_root()
    require_chapter(root, chapter)
    pages = [p for p in find_pages(root) if chapter is None or chapter_number(p.text) == chapter]
    scripts = tool.scripts(root, pages)
    if check:
        findings = tool.check(root, scripts, orphans=chapter is None)
        report(findings, f"{len(scripts)} training scripts are what their chapters give")
        return
    for script in scripts:
        say(tool.write(script))


@app.command("lint-prose")
def lint_prose(
    files: Annotated[list[Path] | None, typer.Argument(help="Default: all prose.")] = None,
) -> None:
    """Check prose: what it names exists, what it claims is shown, spelling and reading times."""
    from bookkit.authoring.claim_answers import answers_without_page
    from bookkit.authoring.lint import Linter, prose_files
    from bookkit.checkout import find_root
    from bookkit.cli import root_group

    root = find_root()
    chosen = [path.resolve() for path in files] if files else prose_files(root)
    for path in chosen:
        if not path.is_file():
            raise UserError(f"{path} does not exist")
    linter = Linter(root, root_group())
    findings = [finding for path in chosen for finding in linter.lint(path)]
    if not files:
        findings += answers_without_page(root)
    report(findings, f"{len(chosen)} files of prose are in order")


@app.command()
def test(
    chapter: Annotated[int | None, typer.Option(help="Only what belongs to one chapter.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only one kind: checks, unit, studies, notebooks or exercises."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Run everything, whatever stands on an earlier proof.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the proofs of what passed, to be committed.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes side by side.")] = 2,
) -> None:
    """Prove what is new, stale or old, and a seventh of the rest; say what stands already."""
    from bookkit.authoring.repository import require_chapter
    from bookkit.authoring.suite.choice import KINDS
    from bookkit.authoring.suite.run import run_suite
    from bookkit.checkout import find_root

    unknown = sorted(set(only or []) - set(KINDS))
    if unknown:
        raise UserError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    root = find_root()
    require_chapter(root, chapter)
    kinds = tuple(only or ())
    if not run_suite(root, everything=every, keep=keep, chapter=chapter, kinds=kinds, workers=jobs):
        raise typer.Exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(
    context: typer.Context,
    texts: Annotated[
        bool, typer.Option("--texts", help="List text pages too, beside their notebooks.")
    ] = False,
) -> None:
    """Open the book in JupyterLab. Further arguments go to JupyterLab, as in `--no-browser`."""
    from importlib.util import find_spec

    from bookkit.authoring.lab import start
    from bookkit.checkout import find_root

    if find_spec("jupyterlab") is None:
        raise UserError("JupyterLab is not installed here; `make lab` installs it")
    start(find_root(), context.args, texts=texts)


def say(line: str) -> None:
    """Print one line at once, so that nobody waits for a buffer."""
    typer.echo(line)


def report(findings: list, good: str, *, fail: bool = True) -> None:
    """Print findings one a line, or the good news; fail if there are any.

    Raises:
        typer.Exit: there are findings and `fail` is set.
    """
    for finding in findings:
        say(str(finding))
    if findings and fail:
        raise typer.Exit(1)
    if not findings:
        say(good)
