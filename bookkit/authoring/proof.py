"""Under what a proof was made: commit, date, versions, processor; and when it has become old."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from nbkit.runs.code_tree import git

# Another version of one of these makes a proof old: it is run again.
VERSIONED = ("torch", "transformers", "numpy")


@cache
def proof_context(root: Path) -> dict[str, Any]:
    """What a proof that is made now stands on.

    Returns:
        "commit" (the last one; the code itself is known by its digests), "date", "versions" and
        "processor".
    """
    from nbkit.runs.provenance import processor_name

    return {
        "commit": head_commit(root),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": python_version(), **installed_versions()},
        "processor": processor_name(),
    }


@cache
def installed_versions() -> dict[str, str]:
    """The versions on which proofs depend, as far as installed."""
    found = {}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def aged(versions: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say which versions have changed since a proof was made; none: the proof is not old.

    Builds of one version (`2.13.0+cpu` and `2.13.0+cu130`) count as one. A package that is not
    installed now says nothing.
    """
    return [
        f"{name} {versions.get(name, 'absent')} then, {now[name]} now"
        for name in VERSIONED
        if name in now and _public(versions.get(name, "")) != _public(now[name])
    ]


@cache
def head_commit(root: Path) -> str:
    """The commit that is checked out; `unknown` where there is no repository."""
    done = _git(root, "rev-parse", "HEAD")
    return done or "unknown"


def commit_count(root: Path) -> int:
    """How many commits lead to the one that is checked out; 0 where there is no repository.

    A shallow clone does not know; it gives a number that differs from commit to commit.
    """
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        return int(head_commit(root)[:8], 16)
    done = _git(root, "rev-list", "--count", "HEAD")
    return int(done) if done else 0


def _git(root: Path, *arguments: str) -> str | None:
    """Ask git about this very folder: a repository around it says nothing of its commit."""
    return git(root, *arguments) if (root / ".git").exists() else None


def _public(text: str) -> str:
    return text.partition("+")[0]
