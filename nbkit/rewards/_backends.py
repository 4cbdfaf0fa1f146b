"""Two ways into new namespaces: bubblewrap, or the same system calls made by ``_launch``."""

import marshal
import os
from functools import cache
from pathlib import Path

from nbkit.rewards import _bubblewrap, _seccomp, _view

BACKENDS = ("bubblewrap", "namespaces")


def problem(backend: str) -> str:
    """Say what the backend lacks, as far as that can be seen without trying; "" if nothing."""
    if not Path("/proc/self/ns/pid").exists():
        return "needs Linux"
    if backend == "bubblewrap":
        if _bubblewrap.found() is None:
            return "not installed"
        if (version := _bubblewrap.version()) < (0, 5):
            return f"version {'.'.join(map(str, version))} is too old, 0.5 is needed"
    if os.geteuid() != 0 and _kernel() < (5, 14):
        return "this kernel cannot limit the processes of one sandbox, 5.14 can"
    try:
        _seccomp.program()
    except _seccomp.MissingError as error:
        return str(error)
    return ""


def filter_program() -> bytes:
    """Return the filter of system calls."""
    return _seccomp.program()


def command(
    backend: str,
    inner: list[str],
    *,
    seccomp_fd: int,
    info_fd: int,
    view: _view.View = _view.NOTHING_MORE,
) -> list[str]:
    """Return the command that runs ``inner`` as process 1 of a new sandbox."""
    if backend == "bubblewrap":
        return _bubblewrap.command(inner, seccomp_fd=seccomp_fd, info_fd=info_fd, view=view)
    shown, hidden, links = _view.visible(view)
    plan = {
        "info": info_fd,
        "seccomp": _seccomp.program(),
        "environment": _view.ENVIRONMENT,
        "base": _base(shown),
        "shown": shown,
        "hidden": hidden,
        "links": links,
        "devices": _view.DEVICES,
        "scratch": _view.SCRATCH,
        "scratch_bytes": _view.SCRATCH_BYTES,
    }
    outer = [_view.interpreter(), *_view.BARE, "-c", _launcher(), marshal.dumps(plan).hex()]
    return [*outer, *inner]


def _base(shown: tuple[str, ...]) -> str:
    """A folder to build the new root on: it hides what lies under it, so nothing shown may."""
    for folder in ("/mnt", "/media", "/srv", "/tmp", "/opt", "/home"):
        if Path(folder).is_dir() and not any(f"{path}/".startswith(f"{folder}/") for path in shown):
            return folder
    raise OSError("no folder to build a new root on")


@cache
def _launcher() -> str:
    return Path(__file__).with_name("_launch.py").read_text()


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
