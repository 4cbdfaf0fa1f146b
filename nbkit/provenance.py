"""Where a result comes from: commit, versions, devices, seed, configuration, start and end.

A figure in the book is either computed on its page or read from a file that carries this stamp.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    *("nbkit", "torch", "numpy", "transformers", "trl", "deepspeed"),
    *("gymnasium", "mujoco", "stable-baselines3"),
)
ROOT = Path(__file__).resolve().parents[1]
# Where the code is a copy of a commit (a cluster job's), the submitter names it; that name counts,
# because a repository around the copy may stand somewhere else.
COMMIT_VARIABLE = "NBKIT_COMMIT"


@dataclass(frozen=True)
class Provenance:
    """The part of a stamp that is known when a run starts."""

    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    started: datetime
    commit: str
    clean: bool | None

    def stamp(self) -> dict[str, Any]:
        """Return the whole stamp, ended now."""
        config = json.dumps(self.config, sort_keys=True, default=str)
        return {
            "commit": self.commit,
            "clean": self.clean,
            "started": self.started.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "seeds": list(self.seeds),
            "config": json.loads(config),
            "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
            "python": platform.python_version(),
            "packages": package_versions(),
            **devices(),
        }


def start(*, seeds: Sequence[int], config: Mapping[str, Any], watched: Sequence[str]) -> Provenance:
    """Note the commit and the time at which a run starts.

    Args:
        seeds: of the run, fixed before it.
        config: the protocol; stored and hashed.
        watched: paths whose uncommitted changes make the run unclean; its own results are not.

    """
    named = os.environ.get(COMMIT_VARIABLE)
    commit = named or _git("rev-parse", "HEAD")
    if named or commit is None:
        return Provenance(tuple(seeds), config, datetime.now(UTC), commit or "unknown", None)
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *watched)
    return Provenance(tuple(seeds), config, datetime.now(UTC), commit, not changed)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON to a new name, then rename: an interrupted write leaves the old file whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(data, indent=1) + "\n")
    new.replace(path)


def devices() -> dict[str, str]:
    """Return the name of the GPU and its driver where there is one, and always the processor."""
    names = {"device_name": processor_name(), "processor": processor_name()}
    smi = _run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if smi:
        cards = [line.split(", ") for line in smi.splitlines()]
        names["device_name"] = cards[0][0] if len(cards) == 1 else f"{len(cards)} × {cards[0][0]}"
        names["driver"] = cards[0][1]
    return names


def processor_name() -> str:
    """Return the name of this machine's processor."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux only; the generic name serves elsewhere
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, as far as installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    return _run("git", "-C", str(ROOT), *arguments)


def _run(*command: str) -> str | None:
    """Return the output of a command, or None where it does not exist or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
