"""Pages, exercises, heads of studies and the tools' own checks, as items of pytest."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nbmake.nb_run
import pytest
from nbclient import NotebookClient
from nbmake.pytest_items import NotebookItem

from bookkit.authoring.environment import page_environment, python_command
from bookkit.authoring.record import MODE_VARIABLE, PAGE_VARIABLE
from bookkit.authoring.repository import relative
from bookkit.authoring.suite.untouched import complaints, run
from bookkit.authoring.watch import Watch, kill_descendants

# The tools' own commands: each compares something generated with what it is generated from.
GENERATORS: tuple[tuple[str, ...], ...] = (
    ("exercises", "split", "--check"),
    ("tangle", "--check"),
    ("job", "render", "--check"),
    ("stamp", "--check"),
    ("lint-prose",),
)
OF_A_CHAPTER = {"exercises", "tangle", "stamp"}
LINTERS: tuple[tuple[str, ...], ...] = (
    ("ruff", "check", "--quiet", "."),
    ("ruff", "format", "--check", "--quiet", "."),
    ("mypy",),
)
CHECKS_FILE = "pyproject.toml"
NO_LIMIT_SECONDS = 10**6  # of the clock, which says nothing on a loaded machine; see Watch
# A kernel may take minutes to answer there, and nbmake has no option for it.
nbmake.nb_run.NotebookClient = partial(NotebookClient, startup_timeout=NO_LIMIT_SECONDS)


class Complaint(Exception):  # noqa: N818 - it carries what to tell, and no more
    """Something is wrong; its text is what the reader of the log needs."""


class BookFile(pytest.File):
    """One file of the book, with the one item that proves it."""

    def collect(self) -> Iterator[pytest.Item]:
        """Give the item for a page, an exercise or a study, or the checks of the tools."""
        name = relative(self.path, self.config.rootpath)
        if name == CHECKS_FILE:
            yield from self._checks()
        elif name.startswith("exercises/"):
            yield ExerciseItem.from_parent(self, name="as a learner finds it")
        elif name.startswith("studies/"):
            yield StudyItem.from_parent(self, name="head")
        else:
            yield PageItem.from_parent(self, name="cells", filename=str(self.path))

    def _checks(self) -> Iterator[pytest.Item]:
        chapter = self.config.getoption("chapter")
        for words in GENERATORS:
            if chapter is not None and words[0] in OF_A_CHAPTER:
                words = (*words, "--chapter", str(chapter))
            name = f"nbkit {' '.join(words)}"
            yield CheckItem.from_parent(self, name=name, words=("bookkit.cli", *words))
        if chapter is None:
            for words in LINTERS:
                yield CheckItem.from_parent(self, name=" ".join(words), words=words)


class _Item(pytest.Item):
    """What the items share: they fail with a text, not with a traceback of the tools."""

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The complaint as it is; anything else as pytest shows it."""
        if isinstance(excinfo.value, Complaint):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """How lists call it."""
        return self.path, None, f"{relative(self.path, self.config.rootpath)}: {self.name}"


class CheckItem(_Item):
    """A command of the tools, or a linter."""

    def __init__(self, *, words: tuple[str, ...], **given: Any) -> None:
        """Take the module and its arguments."""
        super().__init__(**given)
        self.words = words

    def runtest(self) -> None:
        """Run it; its exit status says whether it passed."""
        _run(python_command("-m", *self.words), self.config.rootpath, dict(os.environ))


class StudyItem(_Item):
    """The first seconds of a study, compared with its stored result."""

    def runtest(self) -> None:
        """Run the study with `--check`."""
        root = self.config.rootpath
        environment = page_environment(root, self.path)
        _run(python_command(str(self.path), "--check"), root, environment)


class ExerciseItem(_Item):
    """An exercise as a learner finds it: it must fail in exactly the expected way."""

    def runtest(self) -> None:
        """Run the notebook past its errors and look at each cell."""
        found = complaints(run(self.path, self.config.rootpath))
        if found:
            raise Complaint("\n".join(found))


class PageItem(NotebookItem):
    """An executed page, run by nbmake in the environment in which it was executed."""

    def __init__(self, *, name: str, parent: Any, filename: str) -> None:
        """Take the file; nbmake gives the item the file's name."""
        super().__init__(parent, filename)

    def runtest(self) -> None:
        """Run the cells; recorded figures are compared with the stored ones.

        Raises:
            Complaint: the cells took too much processor time, or none at all for too long.
        """
        variables = page_environment(self.config.rootpath, self.path)
        variables |= {PAGE_VARIABLE: str(self.path), MODE_VARIABLE: "compare"}
        self.config.option.nbmake_timeout = NO_LIMIT_SECONDS
        self.config.option.nbmake_kernel = "python3"
        with (
            _environment(variables),
            Watch(os.getpid(), lambda: kill_descendants(os.getpid())) as watch,
        ):
            try:
                super().runtest()
            except Exception as error:
                if watch.reason is not None:
                    raise Complaint(f"{self.path.name}: {watch.reason}") from error
                raise

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The complaint as it is; the rest as nbmake shows it."""
        if isinstance(excinfo.value, Complaint):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise Complaint(f"{done.stdout.rstrip()}\nended with exit status {done.returncode}")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have exactly these variables in this process, whose kernel inherits them, for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def is_ours(path: Path, root: Path) -> bool:
    """Whether a file is an item of the book: a page, an exercise, a study, or the checks."""
    name = relative(path, root)
    if name == CHECKS_FILE:
        return True
    folder = name.partition("/")[0]
    if folder in {"notebooks", "solutions", "book", "exercises"}:
        return path.suffix == ".ipynb" and not name.endswith(".new.ipynb")
    return folder == "studies" and path.suffix == ".py" and not path.name.startswith("_")
