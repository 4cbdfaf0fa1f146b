"""Control groups, where this process may make some: one limit for all processes of a sandbox.

They count what the limits of a process miss: the kernel's own memory for files, pipes and tables.
Both versions are understood; where neither can be written (the common case without root) the
supervisor's watch on memory stands alone.
"""

import atexit
import contextlib
import itertools
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# controller: (file of version 1, file of version 2)
_FILES = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max", "pids.max"),
}
_numbers = itertools.count()
_lock = threading.Lock()
_idle: list["Group"] = []
_parents: dict[str, tuple[Path, int]] | None = None


@dataclass(frozen=True)
class Group:
    """Folders of one control group, a controller each (in version 2 the same folder)."""

    folders: dict[str, tuple[Path, int]]

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set both limits."""
        for name, value in (("memory", memory_bytes), ("pids", processes)):
            folder, version = self.folders[name]
            (folder / _FILES[name][version - 1]).write_text(str(value))

    def add(self, pid: int) -> None:
        """Put a process, and with it all its later children, under the limits."""
        for folder, _ in self.folders.values():
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the folders; a group empties a moment after its last process has ended."""
        for folder in {folder for folder, _ in self.folders.values()}:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.002)


def take() -> Group | None:
    """Return an empty group, or None where there can be none.

    Groups are used again: the kernel keeps a removed one until the last page that it paid for has
    gone, and a training run would leave a hundred thousand of those.
    """
    global _parents
    with _lock:
        while _idle:
            group = _idle.pop()
            if all(folder.exists() for folder, _ in group.folders.values()):
                return group
        if _parents is None:
            _parents = _find()
            _sweep(_parents)
        return _make(_parents) if _parents else None


def give(group: Group) -> None:
    """Take a group back whose processes have all ended."""
    with _lock:
        _idle.append(group)


def _make(parents: dict[str, tuple[Path, int]]) -> Group | None:
    name = f"nbkit-{os.getpid()}-{next(_numbers)}"
    group = Group({key: (folder / name, version) for key, (folder, version) in parents.items()})
    try:
        for key, (folder, version) in group.folders.items():
            folder.mkdir(exist_ok=True)
            if not (folder / _FILES[key][version - 1]).exists():
                raise FileNotFoundError(key)
        group.limit(2**30, 64)
    except OSError:
        group.remove()
        return None
    return group


def _find() -> dict[str, tuple[Path, int]]:
    """The folders of this process's own groups; {} unless each controller has one."""
    found: dict[str, tuple[Path, int]] = {}
    try:
        own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return {}
    for fields in mounts:
        separator = fields.index("-")
        kind, options, root, point = fields[separator + 1], fields[-1].split(","), *fields[3:5]
        for _, controllers, path in own:
            inside = path.removeprefix(root.rstrip("/")).lstrip("/")
            folder = Path(point) / inside
            if kind == "cgroup2" and not controllers:
                for name in _FILES:
                    found.setdefault(name, (folder, 2))
            for name in _FILES:
                if kind == "cgroup" and name in options and name in controllers.split(","):
                    found[name] = (folder, 1)
    return found if len(found) == len(_FILES) else {}


def _sweep(parents: dict[str, tuple[Path, int]]) -> None:
    """Remove the groups of owners that were killed before they could."""
    for folder in {folder for folder, _ in parents.values()}:
        for left in folder.glob("nbkit-*-*"):
            owner = left.name.split("-")[1]
            if not Path("/proc", owner).exists():
                with contextlib.suppress(OSError):  # a process is still in it
                    left.rmdir()


def _remove_all() -> None:
    with _lock:
        groups, _idle[:] = _idle[:], []
    for group in groups:
        group.remove()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _idle.clear()  # the parent's


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_remove_all)
