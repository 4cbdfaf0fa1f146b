"""Where a result comes from: commit, versions, devices, seed, configuration, start and end.

A figure in the book is either computed on its page or read from a file that carries this stamp.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nbkit.runs import code_tree
from nbkit.runs.root import ROOT
from nbkit.runs.sha256 import text_digest

PACKAGES = (
    *("nbkit", "torch", "numpy", "transformers", "trl", "deepspeed"),
    *("gymnasium", "mujoco", "stable-baselines3"),
)


@dataclass(frozen=True)
class Provenance:
    """The part of a stamp that is known when a run starts.

    Attributes:
        seeds: fixed before the run.
        config: the protocol.
        started: when.
        commit: of the code; "unknown" without git and without a name for it.
        clean: whether the code that runs is the commit's; None if that cannot be told.
        tree: digests of the folders of code as they lie on the disk.
        code: what the program reaches of the code, see ``bookkit.authoring.code``; None where no
            program of the book runs, as on a page.

    """

    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    started: datetime
    commit: str
    clean: bool | None
    tree: Mapping[str, str]
    code: Mapping[str, Any] | None

    def stamp(self) -> dict[str, Any]:
        """Return the whole stamp, ended now."""
        config = json.dumps(self.config, sort_keys=True, default=str)
        return {
            "commit": self.commit,
            "clean": self.clean,
            "tree": dict(self.tree),
            "code": None if self.code is None else dict(self.code),
            "started": self.started.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "seeds": list(self.seeds),
            "config": json.loads(config),
            "config_sha256": text_digest(config),
            "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
            "python": platform.python_version(),
            "packages": package_versions(),
            **devices(),
        }


def start(*, seeds: Sequence[int], config: Mapping[str, Any], watched: Sequence[str]) -> Provenance:
    """Note the commit, the code that lies there and the time at which a run starts.

    Where the code is a copy of a commit, the submitter names the commit and its digests in the
    environment (``nbkit job origin`` prints both). That name counts, because a repository around
    the copy may stand somewhere else.

    Args:
        seeds: of the run, fixed before it.
        config: the protocol; stored and hashed.
        watched: paths whose folder of code belongs to the run; none: every folder of code.

    Raises:
        ValueError: a watched path outside the folders of code, or a variable that is no tree.

    """
    tree = code_tree.tree_of_files(ROOT, code_tree.folders_of(watched))
    commit = os.environ.get(code_tree.COMMIT_VARIABLE)
    if commit:
        noted = os.environ.get(code_tree.TREE_VARIABLE)
        committed = code_tree.from_text(noted) if noted else None
    else:
        commit = code_tree.git(ROOT, "rev-parse", "HEAD")
        committed = code_tree.tree_of_commit(ROOT, commit, tuple(tree)) if commit else None
    clean = code_tree.is_clean(tree, committed)
    return Provenance(
        tuple(seeds), config, datetime.now(UTC), commit or "unknown", clean, tree, _code()
    )


def _code() -> Mapping[str, Any] | None:
    """What the running program reaches; None if it is none of the book's."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        return None
    path = Path(script).resolve()
    # The one import that points up, for programs of the book alone. Loaded by a relative name: a
    # page runs no program, so this is no code that it reaches.
    code = import_module(".authoring.code", "bookkit")
    return code.code_of(ROOT, path) if code.is_program(ROOT, path) else None


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


def _run(*command: str) -> str | None:
    """Return the output of a command, or None where it does not exist or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
