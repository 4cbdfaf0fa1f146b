"""Notes which functions of the checkout a process runs, each once, as they are first called.

Run by its path in every process of a page (see `sitecustomize.py`) where NBKIT_RAN names a folder.
Each process appends to a file of its own there, line by line, so that a killed process loses
nothing. It imports nothing of the package.

A line holds the file from the root of the checkout, the line on which the code begins, and `import`
for code that ran only while a module of the checkout was being imported, `call` otherwise.
"""

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FOLDER_VARIABLE = "NBKIT_RAN"
ROOT_VARIABLE = "NBKIT_RAN_ROOT"
FOLDERS = ("nbkit", "bookkit", "studies", "benchmarks", "tests", "cluster_scripts", "exercises")
# The tools that run pages are no part of what a page shows.
LEFT_OUT = "bookkit/authoring/hooks/"


class Notes:
    """What has run in this process."""

    def __init__(self, folder: str, root: str) -> None:
        """Begin a file of this process's own."""
        self.root = os.path.realpath(root) + os.sep
        self.prefixes = tuple(self.root + name + os.sep for name in FOLDERS)
        self.file = Path(folder, f"{os.getpid()}.txt")
        self.settled: set[CodeType] = set()
        self.imported: set[CodeType] = set()
        self.names: dict[str, str | None] = {}
        self.lock = threading.Lock()

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called by the interpreter at the start of every function; asks for no line events."""
        code = frame.f_code
        if code in self.settled:
            return
        name = self.name_of(code.co_filename)
        if name is None:
            self.settled.add(code)
        elif code.co_name == "<module>":
            self.note(code, name, "import")
            self.settled.add(code)
        elif self.importing(frame):
            if code not in self.imported:
                self.imported.add(code)
                self.note(code, name, "import")
        else:
            self.settled.add(code)
            self.note(code, name, "call")

    def importing(self, frame: FrameType) -> bool:
        """Whether the top of a module of the checkout stands below this frame."""
        caller = frame.f_back
        while caller is not None:
            code = caller.f_code
            if code.co_name == "<module>" and caller.f_globals.get("__name__") != "__main__":
                name = self.name_of(code.co_filename)
                if name is not None:
                    return True
            caller = caller.f_back
        return False

    def name_of(self, filename: str) -> str | None:
        """A file's path from the root, if it is code of the checkout."""
        if filename not in self.names:
            real = os.path.realpath(filename)
            inside = real.startswith(self.prefixes) and not filename.startswith("<")
            name = real[len(self.root) :].replace(os.sep, "/") if inside else None
            self.names[filename] = None if name and name.startswith(LEFT_OUT) else name
        return self.names[filename]

    def note(self, code: CodeType, name: str, how: str) -> None:
        """Append one line."""
        with self.lock, self.file.open("a", encoding="utf-8") as file:
            file.write(f"{name}\t{code.co_firstlineno}\t{how}\n")

    def forked(self) -> None:
        """A forked child writes to a file of its own."""
        self.lock = threading.Lock()
        self.file = self.file.with_name(f"{os.getpid()}.txt")


def start() -> None:
    """Begin to note in this process and in the threads that it starts."""
    notes = Notes(os.environ[FOLDER_VARIABLE], os.environ[ROOT_VARIABLE])
    os.register_at_fork(after_in_child=notes.forked)
    threading.settrace(notes.trace)
    sys.settrace(notes.trace)
