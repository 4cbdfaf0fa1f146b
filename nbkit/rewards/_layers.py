"""The protections of a sandbox by name, as the kernel reports them from inside."""

from pathlib import Path
from typing import Any

MINIMUM = (
    "user id without powers",
    "no new privileges",
    "mount namespace",
    "pid namespace",
    "network namespace",
    "seccomp",
)
_SPACES = {"mnt": "mount", "pid": "pid", "net": "network", "ipc": "ipc", "uts": "host name"}


def layers_of(facts: dict[str, Any], backend: str, *, in_group: bool) -> tuple[str, ...]:
    """Return the names for what the supervisor read of its own process; see ``_inside``."""
    status, spaces = facts["status"], facts["namespaces"]
    found = [backend or "unprotected"]
    powerless = int(status["CapEff"], 16) == 0 == int(status["CapPrm"], 16)
    own_user = spaces["user"] != _own("user")
    if backend and powerless and (own_user or int(status["Uid"].split()[0]) != 0):
        found.append("user id without powers")
    if status["NoNewPrivs"] == "1":
        found.append("no new privileges")
    if own_user:
        found.append("user namespace")
    for short, name in _SPACES.items():
        if spaces[short] != _own(short):
            found.append(f"{name} namespace")
    if status["Seccomp"] == "2":
        found.append("seccomp")
    if in_group:
        found.append("control group")
    return (*found, "own session", "resource limits", "memory watch")


def _own(space: str) -> str:
    return str(Path(f"/proc/self/ns/{space}").readlink())
