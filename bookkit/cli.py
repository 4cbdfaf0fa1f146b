"""The command line, `nbkit …`: every part's commands, each loaded only when it is used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nbkit.errors import UserError

AUTHORING = "bookkit.authoring.commands"
# Each entry: the modules whose `app`s hold the command (for a group: together make it up), and a
# line of help. They are listed here so that `nbkit --help` and `nbkit book` import neither torch
# nor Jupyter: the book's own tools work where only the `book` extra is installed.
COMMANDS = {
    "build": (
        "bookkit.builds.commands",
        "Run your own agent against the judge of a build, by its score on fresh seeds.",
    ),
    "conformance": (
        "bookkit.conformance.commands",
        "Say which conventions a library follows and which known faults it has.",
    ),
    "execute": (AUTHORING, "Rerun stale pages in fresh kernels and store their outputs."),
    "export": (
        "bookkit.checkpoint_commands",
        "Write a sharded checkpoint as a Hugging Face folder.",
    ),
    "grade": (
        "bookkit.grading.commands",
        "Grade a class: run notebooks and builds in a sandbox, write a table, JSON and CSV.",
    ),
    "import-model": ("bookkit.checkpoint_commands", "Start a run from a Hugging Face folder."),
    "lab": (AUTHORING, "Open the book in JupyterLab."),
    "build-deepspeed": (
        "bookkit.checkpoint_commands",
        "Compile DeepSpeed's helpers into the project's cache, so that no chapter waits.",
    ),
    "lint-prose": (AUTHORING, "Check prose: names, links, claims, reading times, spelling."),
    "progress": ("bookkit.exercises.commands", "Show which exercises are done."),
    "spread": (
        "bookkit.authoring.spread_commands",
        "Run pages under several roundings and store what moved, and by how much.",
    ),
    "stamp": (AUTHORING, "Say which pages' outputs no longer belong to their text, and why."),
    "sync": (AUTHORING, "Take edits made in notebooks back into their text pages."),
    "study": (
        "bookkit.authoring.study_commands",
        "Run a study, repeat its beginning and compare, or say which are stale.",
    ),
    "test": (AUTHORING, "Run everything that CI runs."),
    "tangle": (AUTHORING, "Write the jobs' training scripts from the chapters' cells."),
}
GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "book": (("bookkit.site.commands",), "Build, serve and print the book."),
    "exercises": (
        ("bookkit.exercises.commands", "bookkit.authoring.split_commands"),
        "Cut exercises from solutions; prove their checks.",
    ),
    "job": (("bookkit.jobs.commands",), "Make, start and report cluster jobs."),
    "model": (("bookkit.model_commands",), "Fetch a pretrained model by pip."),
    "runs": (("bookkit.jobs.runs_commands",), "Compare runs of cluster jobs."),
}


class LazyCommand(TyperCommand):
    """A name and a line of help; the real command is loaded when it is called."""

    def __init__(self, name: str, help_line: str, load: Callable[[], Any]) -> None:
        """Hold what `nbkit --help` shows, and how to get the rest."""
        super().__init__(name=name, help=help_line, callback=lambda: None)
        self._load = load

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Load the real command and hand over to it."""
        return self.loaded().make_context(info_name, args, parent=parent, **extra)

    def loaded(self) -> Any:
        """The real command."""
        return self._load()


def lazy_command(name: str) -> LazyCommand:
    """The top-level command `name`, not loaded yet."""
    module, help_line = COMMANDS[name]
    return LazyCommand(name, help_line, lambda: commands_of(module)[name])


def lazy_group(name: str) -> LazyCommand:
    """The group of commands `name`, not loaded yet."""
    modules, help_line = GROUPS[name]

    def load() -> TyperGroup:
        commands: dict[str, Any] = {}
        for module in modules:
            commands |= commands_of(module)
        return TyperGroup(name=name, commands=commands, help=help_line, no_args_is_help=True)

    return LazyCommand(name, help_line, load)


def commands_of(module: str) -> dict[str, Any]:
    """The commands by name of the Typer application `app` in a module."""
    return dict(typer.main.get_group(import_module(module).app).commands)


def root_group() -> TyperGroup:
    """The whole command line."""
    commands = {name: lazy_command(name) for name in COMMANDS}
    commands |= {name: lazy_group(name) for name in GROUPS}
    return TyperGroup(
        name="nbkit",
        commands=dict(sorted(commands.items())),
        help="The tools of the book.",
        no_args_is_help=True,
    )


def app() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 1."""
    try:
        root_group()(prog_name="nbkit")
    except UserError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "nbkit").partition(".")[0] in ("nbkit", "bookkit"):
            raise
        _stop(
            f"the package {error.name!r} is not installed here; `make test` and `make lab` install "
            "all that the book needs, or run `pip install -c constraints.txt -e '.[all]'`"
        )


def _stop(message: str) -> None:
    print(f"nbkit: {message}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    app()
