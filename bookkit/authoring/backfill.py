"""The code that results ran whose stamps do not hold it, from the commits that the stamps name.

Run by `nbkit study --backfill`: for results recorded before stamps held their code, and again for
all that stand in the file when the rule of digests has changed.
"""

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from bookkit.authoring.code import RESULTS, code_of, script_of
from bookkit.authoring.reach import Finder
from bookkit.authoring.results import RECORDED, Results
from nbkit.runs.code_tree import FOLDERS, git
from nbkit.runs.provenance import write_json


def backfill(root: Path) -> Iterator[str]:
    """Write ``studies/recorded_code.json``; yield a line for each result that stays unknown."""
    results: dict[str, str | None] = {}
    programs: dict[str, dict[str, Any]] = {}
    wanted: dict[str, list[tuple[str, Path]]] = {}
    for path, stamp in Results(root).files():
        name = path.relative_to(root).as_posix()
        if stamp.get("code"):
            continue
        results[name] = None
        script = script_of(root, path)
        commit = git(root, "rev-parse", "--verify", "--quiet", f"{stamp['commit']}^{{commit}}")
        if script is None or commit is None:
            yield f"{name}: its commit {stamp['commit'][:7]} is not in this history"
            continue
        wanted.setdefault(commit, []).append((name, script.relative_to(root)))
    for commit, entries in wanted.items():
        with tempfile.TemporaryDirectory(prefix="nbkit-commit-") as folder:
            then = Path(folder).resolve()
            _check_out(root, commit, then)
            finder = Finder(then)
            for name, script in entries:
                if not (then / script).is_file():
                    yield f"{name}: commit {commit[:7]} does not hold {script}"
                    continue
                key = f"{commit} {script.as_posix()}"
                if key not in programs:
                    found = code_of(then, then / script, finder)
                    programs[key] = {"digest": found["digest"], "symbols": found["symbols"]}
                results[name] = key
    content = {"computed": "from commit", "results": results, "programs": programs}
    write_json(root / RECORDED, content)


def _check_out(root: Path, commit: str, folder: Path) -> None:
    """Put the code of a commit into an empty folder, without results."""
    listed = git(root, "ls-tree", "--name-only", commit, *FOLDERS) or ""
    done = subprocess.run(
        ("git", "-C", str(root), "archive", commit, *listed.split()),
        capture_output=True,
        check=True,
    )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        code = [m for m in archive.getmembers() if RESULTS not in Path(m.name).parts]
        archive.extractall(folder, members=code, filter="data")
