"""One process at a time writes to a folder: a lock that the system takes back, however it ends.

Some file systems know no such locks (Lustre without its mount option `flock`). There a file that
its owner renews takes its place (``lease``).
"""

import errno
import fcntl
import time
from pathlib import Path
from typing import IO

from nbkit.runs import lease

NAME = "lock"
NOT_THERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
# `nbkit job status` holds the lock for the moment in which it looks.
SECONDS, PAUSE = 2.0, 0.05


def hold(folder: Path) -> IO[str] | lease.Lease:
    """Hold a folder for this process, until what is returned is closed.

    Where the file system has no locks, and the last holder did not close, this waits until it is
    known to be dead (``lease.STALE_SECONDS``).

    Raises:
        RuntimeError: another process holds it.

    """
    file = (folder / NAME).open("a")
    end = time.monotonic() + SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(PAUSE)
                continue
            file.close()
            raise RuntimeError(_taken(folder)) from None
        except OSError as error:
            file.close()
            if error.errno not in NOT_THERE:
                raise
            held = lease.take(folder)
            if held is None:
                raise RuntimeError(_taken(folder)) from None
            return held
        return file


def is_held(folder: Path) -> bool | None:
    """Whether a process holds a folder; None where one look cannot tell."""
    path = folder / NAME
    if not path.exists():
        return False
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            return lease.is_leased(folder)
    return False


def _taken(folder: Path) -> str:
    return f"another process writes to {folder}; wait for it, or give the run another folder"
