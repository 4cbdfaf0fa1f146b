"""What a page really imports and reads, observed in its kernel while it runs.

This file is run inside the kernel by its path (`runpy`), before the page's first cell and apart
from its names. It must not import anything of the package.
"""

import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

HANDLE = "_nbkit_trace"
SKIPPED = {".git", ".venv", "__pycache__", "_build", ".nbkit", "runs", ".ipynb_checkpoints"}
SKIPPED_SUFFIXES = (".py", ".pyc", ".so", ".ipynb", ".md")


class Trace:
    """Records the files under one folder that this process opens for reading."""

    def __init__(self, root: str) -> None:
        """Begin to record."""
        self.root = os.path.realpath(root) + os.sep
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.began = processor_seconds()
        sys.addaudithook(self._audit)

    def report(self) -> dict[str, Any]:
        """What happened since the start.

        Returns:
            `modules`, those of the package that are loaded; `reads`, the files that were read, from
            the root; `processor_seconds`, of this process and its children.
        """
        modules = [
            name
            for name, module in list(sys.modules.items())
            if name.split(".")[0] in ("nbkit", "bookkit") and getattr(module, "__file__", None)
        ]
        reads = [path for path in self.read - self.written if Path(self.root, path).is_file()]
        return {
            "modules": sorted(modules),
            "reads": sorted(reads),
            "processor_seconds": processor_seconds() - self.began,
        }

    def report_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.report())

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, mode, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.path.realpath(os.fsdecode(path))
        if not name.startswith(self.root):
            return
        name = name[len(self.root) :].replace(os.sep, "/")
        if ".egg-info/" in name or ".dist-info/" in name:
            return
        if SKIPPED.intersection(name.split("/")) or name.endswith(SKIPPED_SUFFIXES):
            return
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR)) or any(c in (mode or "") for c in "wax+")
        (self.written if writes else self.read).add(name)


def processor_seconds() -> float:
    """The processor time of this process and its children: those it waited for and those alive."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + _living_children()


def _living_children() -> float:
    import psutil

    total = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def start(root: str) -> None:
    """Begin to record in this process; the record hangs on `sys`, not on the page's names."""
    setattr(sys, HANDLE, Trace(root))
