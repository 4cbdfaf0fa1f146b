"""The command `nbkit grade`."""

import random
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.callback()
def _group() -> None:
    """Keep the command's name although it is the only one here."""


@app.command()
def grade(
    folder: Annotated[Path, typer.Argument(help="Holds a folder or notebooks for each learner.")],
    chapter: Annotated[
        list[int] | None, typer.Option(help="Only these chapters. Default: all handed in.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the cases. Default: a fresh one.")] = None,
    seconds: Annotated[
        float, typer.Option(min=1, help="Processor seconds for one cell or exercise.")
    ] = 30.0,
    notebook_seconds: Annotated[
        float, typer.Option(min=1, help="Processor seconds for one notebook.")
    ] = 300.0,
    builds: Annotated[
        bool, typer.Option(help="Judge what lies in a learner's folder `builds`; takes minutes.")
    ] = True,
    memory: Annotated[int, typer.Option(min=256, help="MiB of memory for one notebook.")] = 4096,
    output: Annotated[
        Path | None, typer.Option(help="Where grades.json and grades.csv go. Default: FOLDER.")
    ] = None,
) -> None:
    """Grade a class: run notebooks and builds in a sandbox, print a table, write JSON and CSV."""
    from rich.console import Console

    from bookkit.authoring.repository import chapter_number, notebooks, write_atomically
    from bookkit.builds.registry import all_builds
    from bookkit.checkout import find_root
    from bookkit.grading.box import Allowance
    from bookkit.grading.builds import grade_build
    from bookkit.grading.grades import SIGNS, Grade, as_csv, as_json, as_table, sentences
    from bookkit.grading.judge import Grader
    from bookkit.grading.submissions import find_submissions
    from nbkit.errors import UserError

    paths = notebooks(find_root(), ("exercises",))
    stems = {path.stem: n for path in paths if (n := chapter_number(path)) is not None}
    wanted = set(chapter or stems.values())
    if unknown := sorted(wanted - set(stems.values())):
        raise UserError(f"chapter {unknown[0]} has no exercises")
    names = {build.name: build.number for build in all_builds().values()}
    submissions = find_submissions(folder, stems, names)
    seed = random.SystemRandom().randrange(1, 1_000_000) if seed is None else seed
    grader = Grader(seed, Allowance(seconds, memory), notebook_seconds)
    grades = []
    console = Console(highlight=False)
    for submission in submissions:
        chapters = [n for n in sorted(submission.notebooks) if n in wanted]
        marks = [m for n in chapters for m in grader.grade(submission.notebooks[n], n)]
        programs = sorted(submission.builds.items()) if builds else []
        marks += [grade_build(path, n, seed) for n, path in programs if n in wanted]
        grades.append(Grade(submission, marks))
        console.print(f"{submission.learner}: {grades[-1].total} of {grades[-1].out_of}")
    target = output or folder
    target.mkdir(parents=True, exist_ok=True)
    write_atomically(target / "grades.json", as_json(grades, seed))
    write_atomically(target / "grades.csv", as_csv(grades))
    console.print(as_table(grades))
    console.print(", ".join(f"{sign} {state}" for state, sign in SIGNS.items()))
    for line in sentences(grades):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"Written: {target / 'grades.json'} and {target / 'grades.csv'}; seed {seed}.")
