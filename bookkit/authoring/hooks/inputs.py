"""Notes which files and folders of the checkout a process reads, and which modules it loads.

Run by its path in every Python process below a test, a page or an exercise (see
`sitecustomize.py`) where NBKIT_INPUTS names a folder; a process appends to a file of its own there,
line by line, so that a killed process loses nothing. It imports nothing of the package.

A line holds `read`, `list`, `load` or `write`, and the path from the root of the checkout.

Seen is what Python opens or lists, what `import_module` gives, and the files that stand on the
command lines of other programs. Not seen is what compiled code opens by itself (safetensors,
MuJoCo), what another program reads beyond its command line, and whether a file merely exists.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "NBKIT_INPUTS"
ROOT_VARIABLE = "NBKIT_INPUTS_ROOT"
SKIPPED = {
    *(".git", ".venv", "_build", ".nbkit", "runs", ".ipynb_checkpoints", ".cache"),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "node_modules"),
}
# Found statically, by what a test or a page reaches of them; the rest counts file by file.
REACHED = ("nbkit/", "bookkit/", "tests/", "exercises/checks/")
_STARTING = {"subprocess.Popen": 1, "os.posix_spawn": 1, "os.exec": 1, "os.system": 0}
_IMPORTER = "<frozen importlib._bootstrap_external>"


class Inputs:
    """What this process and, through the environment, its children take from the checkout."""

    def __init__(self, folder: str, root: str) -> None:
        """Begin to note into a folder."""
        self.root = os.path.realpath(root) + os.sep
        self.folder = folder
        self.known: set[tuple[str, str, str]] = set()

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter at every audited event of this process."""
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, str | bytes | os.PathLike):
                writes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
                writes = writes or any(letter in (mode or "") for letter in "wax+")
                self.note("write" if writes else "read", os.fsdecode(path))
        elif event in {"os.listdir", "os.scandir"}:
            path = arguments[0]
            importing = sys._getframe(1).f_code.co_filename == _IMPORTER
            if not importing and (path is None or isinstance(path, str | bytes | os.PathLike)):
                self.note("list", os.fsdecode(path or "."))
        elif event in _STARTING:
            folder = arguments[2] if event == "subprocess.Popen" else None
            self.note_command(arguments[_STARTING[event]], os.fsdecode(folder or "."))

    def note_command(self, words: Any, folder: str) -> None:
        """Note the files that a command line names."""
        for word in [words] if isinstance(words, str | bytes) else words or ():
            if isinstance(word, str | bytes | os.PathLike):
                for part in os.fsdecode(word).split():
                    path = Path(folder, part)
                    if os.path.isfile(path):  # noqa: PTH113 - an argument may be no path at all
                        self.note("read", str(path))

    def follow_imports(self) -> None:
        """Note what `import_module` gives: a module that stands in memory is not opened again."""
        bootstrap: Any = importlib._bootstrap
        given = bootstrap._gcd_import

        def noted(name: str, package: str | None = None, level: int = 0) -> Any:
            module = given(name, package, level)
            path = getattr(module, "__file__", None)
            if path:
                self.note("read", path)
            return module

        bootstrap._gcd_import = noted

    def note(self, what: str, path: str) -> None:
        """Append one line, unless it stands there or is no part of the checkout's sources."""
        # A process that a fork server started learns from its environment whom it works for.
        folder = os.environ.get(FOLDER_VARIABLE) or self.folder
        key = (folder, what, path)
        if key in self.known:
            return
        self.known.add(key)
        name = os.path.realpath(path)
        if not f"{name}{os.sep}".startswith(self.root) or not folder:
            return
        name = name[len(self.root) :].replace(os.sep, "/")
        parts = name.split("/")
        if parts[-1].endswith(".pyc") and len(parts) > 1 and parts[-2] == "__pycache__":
            parts = [*parts[:-2], parts[-1].partition(".")[0] + ".py"]
            name = "/".join(parts)
        if SKIPPED.intersection(parts) or ".egg-info" in name or "__pycache__" in parts:
            return
        if what == "read" and name.endswith(".py") and name.startswith(REACHED):
            what = "load"
        with Path(folder, f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{what}\t{name}\n")


def start() -> Inputs:
    """Begin to note in this process; the object says where to, and may be told another folder."""
    inputs = Inputs(os.environ[FOLDER_VARIABLE], os.environ[ROOT_VARIABLE])
    sys.addaudithook(inputs.audit)
    inputs.follow_imports()
    return inputs
