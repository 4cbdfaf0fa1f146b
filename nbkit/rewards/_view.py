"""What a program in a sandbox sees of this machine, and as whom: the same for every backend."""

import os
import secrets
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCRATCH = "/scratch"
SCRATCH_BYTES = 64 * 2**20
DEVICES = ("null", "zero", "full", "random", "urandom")
BARE = ("-S", "-s", "-P", "-B", "-X", "utf8")  # no installed packages, nothing of the user
ENVIRONMENT = {
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class View:
    """What a program sees beyond the bare interpreter: folders read-only, and folders emptied.

    Attributes:
        shown: absolute paths of folders, such as one of installed packages.
        hidden: absolute paths of folders in them that appear empty.

    """

    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


NOTHING_MORE = View()


def interpreter() -> str:
    """Return the path of the interpreter itself, outside any virtual environment."""
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def drop_to() -> int:
    """Return the user id that a sandbox started by root takes, or 0 if not started by root.

    A random high one: it owns nothing, and no two sandboxes share it, so that a limit on the
    processes of a user is a limit on those of one sandbox.
    """
    if os.geteuid() != 0:
        return 0
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, _, count = max((tuple(map(int, row)) for row in rows), key=lambda row: row[2])
    if count < 2**16:
        return 0  # a container with too few: the minimum will then not be met
    return first + count // 4 + secrets.randbelow(count // 4)


@cache
def visible(
    more: View = NOTHING_MORE,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the folders shown read-only, the folders hidden in them, and symbolic links."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix, str(Path(interpreter()).parents[1])}
    wanted = ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/lib32"]
    wanted += [f"{p}/{part}" for p in sorted(prefixes) for part in ("bin", "lib", "lib64")]
    links = []
    for name in ("/bin", "/lib", "/lib64", "/lib32"):
        path = Path(name)
        if path.is_symlink():
            links.append((str(path.readlink()), name))
        elif path.is_dir():
            wanted.append(name)
    shown: list[str] = []
    for folder in wanted:
        if Path(folder).is_dir() and folder not in shown:
            shown.append(folder)
    hidden = [
        str(path)
        for folder in shown
        for pattern in ("python*/site-packages", "python*/dist-packages")
        for path in sorted(Path(folder).glob(pattern))
        if not path.is_symlink()
    ]
    shown += [folder for folder in more.shown if folder not in shown]
    hidden = [folder for folder in hidden if folder not in more.shown] + list(more.hidden)
    return tuple(shown), tuple(dict.fromkeys(hidden)), tuple(links)
