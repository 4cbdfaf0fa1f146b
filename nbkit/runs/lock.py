"""One process at a time writes to a folder: a lock that the system takes back, however it ends.

Some file systems know no such locks (Lustre without its mount option `flock`). There a run goes on
without one, with a warning: two jobs on one run folder are then not noticed.
"""

import errno
import fcntl
import time
import warnings
from pathlib import Path
from typing import IO

NAME = "lock"
NOT_THERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
# `nbkit job status` holds the lock for the moment in which it looks.
SECONDS, PAUSE = 2.0, 0.05


def hold(folder: Path) -> IO[str]:
    """Hold a folder for this process, until the file that is returned is closed.

    Raises:
        RuntimeError: another process holds it.

    """
    file = (folder / NAME).open("a")
    end = time.monotonic() + SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() < end:
                time.sleep(PAUSE)
                continue
            file.close()
            raise RuntimeError(
                f"another process writes to {folder}; wait for it, or give the run another folder"
            ) from error
        except OSError as error:
            if error.errno not in NOT_THERE:
                file.close()
                raise
            warnings.warn(
                f"{folder} is on a file system without locks; see to it yourself that no two jobs "
                "write to it",
                stacklevel=2,
            )
        return file


def is_held(folder: Path) -> bool | None:
    """Whether a process holds a folder; None where the file system has no locks to tell."""
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
            return None
    return False
