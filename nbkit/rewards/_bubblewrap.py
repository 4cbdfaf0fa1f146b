"""The command line that puts a bare Python into bubblewrap's namespaces.

Inside are visible: the system's programs and libraries and the interpreter's own, read-only and
without installed packages; five devices; a /proc of the sandbox's own processes; and one scratch
folder in memory, of limited size, gone with the sandbox. Not visible: home folders, this
repository, the environment, other processes, any network.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from nbkit.rewards._view import (
    DEVICES,
    ENVIRONMENT,
    NOTHING_MORE,
    SCRATCH,
    SCRATCH_BYTES,
    View,
    visible,
)


def found() -> str | None:
    """Return the path of bubblewrap, if it is installed."""
    return shutil.which("bwrap")


def command(
    inner: list[str],
    *,
    seccomp_fd: int,
    info_fd: int,
    scratch_bytes: int = SCRATCH_BYTES,
    view: View = NOTHING_MORE,
) -> list[str]:
    """Return the command that runs ``inner`` as process 1 of a new sandbox."""
    path = found()
    assert path is not None  # the caller has looked
    shown, hidden, links = visible(view)
    options = [path, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    options += ["--unshare-cgroup-try", "--hostname", "sandbox", "--as-pid-1", "--new-session"]
    options += ["--die-with-parent", "--clearenv", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        # Only to take a powerless user id, which loses these two as well.
        options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        options += ["--unshare-user"]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    # bubblewrap gives a folder that it makes the mode of the original, such as 0700 of a home.
    parents = {str(parent) for folder in shown for parent in Path(folder).parents}
    for folder in sorted(parents - {"/"} | {"/dev"}):
        options += ["--perms", "0755", "--dir", folder]
    for folder in shown:
        options += ["--ro-bind", folder, folder]
    for folder in hidden:
        options += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for target, name in links:
        options += ["--symlink", target, name]
    for device in DEVICES:
        options += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    options += ["--symlink", "/proc/self/fd", "/dev/fd", "--proc", "/proc"]
    options += ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", SCRATCH]
    if "/tmp" not in parents:  # where an interpreter may stand
        options += ["--symlink", SCRATCH.lstrip("/"), "/tmp"]
    options += ["--chdir", SCRATCH, "--remount-ro", "/"]
    options += ["--seccomp", str(seccomp_fd), "--info-fd", str(info_fd)]
    return [*options, "--", *inner]


def version() -> tuple[int, ...]:
    """Return the numbers of bubblewrap's version; () if it is not installed."""
    path = found()
    if path is None:
        return ()
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", text))
