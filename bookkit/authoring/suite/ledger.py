"""The proofs of tests, exercises and heads of studies: what passed, with which code and inputs.

They stand in `tests/proofs.json`, are written by `nbkit test --keep` and are committed. The proof
of an executed page is its stamp.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bookkit.authoring.reach import Finder
from bookkit.authoring.reach.digests import combined_digest, file_digest, text_digest
from bookkit.authoring.repository import write_atomically
from nbkit.errors import UserError

LEDGER = "tests/proofs.json"
GONE = "gone"
REQUIRE = "NBKIT_REQUIRE_"
REGISTRY = "bookkit.exercises.registry.all_exercises"
# Files that come and go without anybody having written anything.
_UNWRITTEN = {
    *("_build", "runs", "nbkit.egg-info"),
    *("__pycache__", ".pytest_cache", ".ipynb_checkpoints", ".hypothesis", "proofs.json"),
}


@dataclass(frozen=True)
class Observed:
    """What a run took from the checkout, beside the code that can be found statically.

    Attributes:
        reads: files that were read.
        lists: folders whose names were listed.
        modules: modules of the package that were loaded by name, or by a child process.
    """

    reads: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """One proof: a digest of the code, one of the inputs, and under what it was made.

    `required` are the variables that made a missing browser, sandbox or cluster a failure, and not
    a skipped test.
    """

    code: str
    inputs: str
    observed: Observed
    seconds: float
    passed: int
    skipped: int
    required: tuple[str, ...]
    commit: str
    date: str
    versions: Mapping[str, str]
    processor: str


def read_ledger(root: Path) -> dict[str, Proof]:
    """Read the proofs by name of the file that was proven; empty where there are none."""
    path = root / LEDGER
    if not path.is_file():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {name: _proof(entry) for name, entry in stored.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{LEDGER} cannot be read ({error}); take one side of the merge as it is, or delete "
            "the file, and run `make test KEEP=1`"
        ) from None


def _proof(entry: Mapping[str, Any]) -> Proof:
    observed = Observed(**{k: tuple(v) for k, v in entry["observed"].items()})
    return Proof(**{**entry, "observed": observed, "required": tuple(entry["required"])})


def write_ledger(root: Path, proofs: Mapping[str, Proof]) -> None:
    """Write the proofs of files that still exist, sorted by name."""
    kept = {name: asdict(proofs[name]) for name in sorted(proofs) if (root / name).is_file()}
    write_atomically(root / LEDGER, json.dumps(kept, indent=1, sort_keys=True) + "\n")


def required() -> tuple[str, ...]:
    """The variables `NBKIT_REQUIRE_…` that are set now: a lack fails and is not skipped."""
    return tuple(
        sorted(name for name, value in os.environ.items() if name.startswith(REQUIRE) and value)
    )


def code_of(
    finder: Finder, name: str, modules: Iterable[str], sources: Iterable[str] = ()
) -> tuple[str, set[str]]:
    """The digest of the code that a file reaches, and the modules that it imports.

    Args:
        finder: of the checkout.
        name: a test, a study or a notebook, from the root.
        modules: modules that are reached whole, besides.
        sources: the cells of a notebook.
    """
    path = finder.root / name
    scripts = []
    if path.suffix == ".py":
        scripts = [path, *conftests(finder.root, path)]
    reach = finder.reach(scripts=scripts, sources=sources, modules=modules)
    if path.suffix == ".py" and name.startswith("tests/") and REGISTRY in reach.symbols:
        # It loads the checks of every chapter by their file names.
        reach = finder.reach(scripts=scripts, modules=[*modules, *finder.check_modules()])
    return reach.digest, reach.modules


def conftests(root: Path, path: Path) -> list[Path]:
    """The `conftest.py` files that pytest loads for a test file."""
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    return [folder / "conftest.py" for folder in folders if (folder / "conftest.py").is_file()]


def inputs_digest(root: Path, observed: Observed) -> str:
    """One digest of the files that were read and of the names in the folders that were listed."""
    found = {name: _content(root / name) for name in observed.reads}
    found |= {f"{name}/": _names(root / name) for name in observed.lists}
    return combined_digest(found)


def _content(path: Path) -> str:
    return file_digest(path) if path.is_file() else GONE


def _names(folder: Path) -> str:
    if not folder.is_dir():
        return GONE
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in _UNWRITTEN and not path.name.startswith(".")
    )
    return text_digest("\n".join(names))
