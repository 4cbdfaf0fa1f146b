"""A lock for file systems that have none: a file that one process makes and renews while it lives.

Its text holds a count that the owner raises every ``RENEW_SECONDS``. Whoever finds the file watches
that count on a clock of its own, so clocks that differ between machines, or step, do not matter: a
count that rises is a living owner, one that stands still for ``STALE_SECONDS`` is a dead one.
"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
from pathlib import Path

NAME = "lock.lease"
RENEW_SECONDS, STALE_SECONDS, LOOK_SECONDS = 10.0, 120.0, 1.0


class Lease:
    """The file, held by this process until ``close``.

    If another process took it over (this one slept for longer than ``STALE_SECONDS``), this process
    ends at once, with exit status 1: two must not write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = f"{_place()} {os.getpid()} {secrets.token_hex(8)}"
        self._count, self._ended = 0, threading.Event()
        with path.open("x") as file:  # made by one process, on a network file system too
            file.write(f"{self._owner} 0\n")
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give the folder back."""
        self._ended.set()
        self._thread.join()
        if _owner(_read(self._path)) == self._owner:
            self._path.unlink()

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            found = _read(self._path)
            if _owner(found) != self._owner:
                print(f"{self._path}: taken over ({found!r}); this process ends", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)
            self._count += 1
            new = self._path.with_name(f"{NAME}.{os.getpid()}")
            new.write_text(f"{self._owner} {self._count}\n")
            new.replace(self._path)


def take(folder: Path) -> Lease | None:
    """Hold a folder, or None: a living process holds it. Waits where its owner may be dead."""
    path = folder / NAME
    while True:
        with contextlib.suppress(FileExistsError):
            return Lease(path)
        seen = _read(path)
        if not _died_here(seen) and _rises(path, seen):
            return None
        _put_away(path, seen)


def is_leased(folder: Path) -> bool | None:
    """Whether a process holds a folder; None: one look cannot tell, its owner is elsewhere."""
    seen = _read(folder / NAME)
    if not seen or _died_here(seen):
        return False
    return True if _lives_here(seen) else None


def _rises(path: Path, seen: str) -> bool:
    """Whether the file changes, or goes, before it counts as left behind."""
    end = time.monotonic() + STALE_SECONDS
    while time.monotonic() < end:
        if not path.exists():
            return False
        if _lives_here(seen) or _read(path) not in (seen, ""):
            return True
        time.sleep(LOOK_SECONDS)
    return False


def _put_away(path: Path, seen: str) -> None:
    """Take a file away that was left behind; if another was faster, its own is put back."""
    aside = path.with_name(f"{NAME}.{secrets.token_hex(8)}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
        if _read(aside) != seen and not path.exists():
            aside.rename(path)
        aside.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _owner(text: str) -> str:
    return text.rpartition(" ")[0]


def _place() -> str:
    """This machine, and which processes of it are seen from here."""
    space = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{space.readlink() if space.is_symlink() else ''}"


def _lives_here(text: str) -> bool:
    place, _, rest = text.partition(" ")
    number = rest.partition(" ")[0]
    return place == _place() and number.isdigit() and Path(f"/proc/{number}").exists()


def _died_here(text: str) -> bool:
    """Whether its owner was a process of this machine and is no more."""
    return text.startswith(f"{_place()} ") and Path("/proc/1").exists() and not _lives_here(text)
