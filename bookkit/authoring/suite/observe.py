"""Observes, in the processes of a test run, what each test file takes from the checkout."""

import os
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bookkit.authoring.draws import HOOKS, hook_environment
from bookkit.authoring.suite.ledger import Observed

INPUTS = HOOKS / "inputs.py"
FOLDER_VARIABLE, ROOT_VARIABLE = "NBKIT_INPUTS", "NBKIT_INPUTS_ROOT"
USES = "uses.txt"


class Observer:
    """Notes into one folder a subject, in this process and in the Python processes below it."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Begin; what is read before the first subject is noted nowhere."""
        self.folder = folder
        os.environ[FOLDER_VARIABLE] = ""
        os.environ[ROOT_VARIABLE] = str(root)
        os.environ.update(hook_environment(dict(os.environ)))
        self._inputs: Any = runpy.run_path(str(INPUTS))["start"]()

    @contextmanager
    def noting(self, subject: str) -> Iterator[None]:
        """Note for one subject while this lasts, then again for the one before."""
        before = self._inputs.folder
        self._switch(str(self.place(subject)))
        try:
            yield
        finally:
            self._switch(before)

    def uses(self, subject: str, fixture: str) -> None:
        """Note that a subject uses a fixture that another one may have set up."""
        with (self.place(subject) / USES).open("a", encoding="utf-8") as file:
            file.write(f"{fixture}\n")

    def place(self, subject: str) -> Path:
        """The folder of a subject, made where it is missing."""
        path = place_of(self.folder, subject)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _switch(self, folder: str) -> None:
        self._inputs.folder = folder
        os.environ[FOLDER_VARIABLE] = folder


def place_of(folder: Path, subject: str) -> Path:
    """The folder in which a subject's notes stand."""
    return folder / subject.replace("/", "+")


def observed_of(folder: Path, subject: str, reached: set[str]) -> Observed:
    """Read what was noted of a subject and of the fixtures that it used.

    Args:
        folder: of all notes.
        subject: the test file, study or notebook.
        reached: the modules that are found statically, and counted by what is reached of them.
    """
    processes = [p for s in (subject, *_used(folder, subject)) for p in _processes(folder, s)]
    lines = {line for process in processes for line in process}
    # What is read before it is written over was there before.
    written = {name for process in processes for name in _made(process)}
    reads = {name for what, name in lines if what == "read"} - written
    reads = {n for n in reads if not (n.endswith(".py") and _dotted(n) in reached)}
    lists = {name for what, name in lines if what == "list"}
    loaded = {_dotted(name) for what, name in lines if what == "load"}
    tests = {f"{name.replace('.', '/')}.py" for name in loaded if name.startswith("tests.")}
    return Observed(
        reads=tuple(sorted(reads | tests - {subject})),
        lists=tuple(sorted(lists)),
        modules=tuple(sorted(m for m in loaded - reached if not m.startswith("tests."))),
    )


def _made(process: list[tuple[str, str]]) -> set[str]:
    """The files that a process wrote before it read them, if it ever did."""
    first: dict[str, str] = {}
    for what, name in process:
        first.setdefault(name, what)
    return {name for name, what in first.items() if what == "write"}


def _processes(folder: Path, subject: str) -> list[list[tuple[str, str]]]:
    place = place_of(folder, subject)
    found = []
    for path in sorted(place.glob("*.txt")) if place.is_dir() else []:
        if path.name != USES:
            lines = path.read_text(encoding="utf-8").splitlines()
            parts = [line.partition("\t") for line in lines]
            found.append([(what, name) for what, _, name in parts])
    return found


def _used(folder: Path, subject: str) -> set[str]:
    path = place_of(folder, subject) / USES
    return set(path.read_text(encoding="utf-8").split("\n")) - {""} if path.is_file() else set()


def _dotted(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
