"""Studies: long experiments whose stamped result a page reads and whose beginning CI repeats."""

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

PACKAGES = ("nbkit", "torch", "numpy", "transformers", "trl", "gymnasium", "stable-baselines3")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Study:
    """A study under way; ``finish`` stamps its result and writes it to a new name, then renames."""

    out: Path
    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    started: datetime
    commit: str
    clean: bool

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write stamp and ``result`` as JSON; an interrupted write leaves the old file whole."""
        config = json.dumps(self.config, sort_keys=True, default=str)
        stamp = {
            "commit": self.commit,
            "clean": self.clean,
            "started": self.started.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "seeds": list(self.seeds),
            "config": json.loads(config),
            "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "device_name": device_name(),
            "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
            "python": platform.python_version(),
            "packages": package_versions(),
        }
        self.out.parent.mkdir(parents=True, exist_ok=True)
        new = self.out.with_suffix(".json.new")
        new.write_text(json.dumps({"stamp": stamp, **result}, indent=1) + "\n")
        new.replace(self.out)


def start_study(out: Path, *, seeds: Sequence[int], config: Mapping[str, Any]) -> Study:
    """Note the commit and the time at which a study starts.

    Args:
        out: where the result will stand, ``studies/results/NAME.json``.
        seeds: fixed before the run.
        config: the protocol, stored and hashed in the stamp.

    """
    commit = _git("rev-parse", "HEAD")
    # Results are what a study writes, so only changed code counts as unclean.
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "nbkit", "studies/*.py")
    return Study(out, tuple(seeds), config, datetime.now(UTC), commit or "unknown", not changed)


class StudyMismatch(AssertionError):  # noqa: N818 - a verdict, like RecordMismatch
    """The beginning of a study no longer gives the stored figures."""


def compare_head(stored: Sequence[float], fresh: Sequence[float], tol: float) -> None:
    """Compare the first figures of a study with the stored ones.

    Args:
        stored: figures from the result file.
        fresh: the same figures, computed now.
        tol: the largest absolute difference that counts as agreement.

    Errors:
        StudyMismatch: another number of figures, or one outside the tolerance.

    """
    if len(stored) != len(fresh):
        raise StudyMismatch(f"head: {len(fresh)} figures now, {len(stored)} stored; run the study")
    for i, (old, new) in enumerate(zip(stored, fresh, strict=True)):
        if not abs(old - new) <= tol:
            raise StudyMismatch(
                f"head: figure {i} is {new:.6g} now and {old:.6g} in the stored result, more than "
                f"the tolerance {tol:g} apart; run the study again"
            )


def device_name() -> str:
    """Return the name of this machine's processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # no /proc outside Linux; the generic name below serves
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


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()
