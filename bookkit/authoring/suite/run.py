"""`nbkit test`: pytest with the book's plugin."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bookkit.authoring.environment import python_command
from nbkit.errors import UserError

PLUGIN = "bookkit.authoring.suite.plugin"
FOLDERS = ("tests", "notebooks", "solutions", "book", "exercises", "studies")
NOTHING_COLLECTED = 5


def run_suite(
    root: Path,
    *,
    everything: bool = False,
    keep: bool = False,
    chapter: int | None = None,
    kinds: tuple[str, ...] = (),
    workers: int = 2,
) -> bool:
    """Run what has to be proven and print how it went.

    Args:
        root: the checkout.
        everything: run all, whatever stands on an earlier proof.
        keep: write the proofs of what passed into `tests/proofs.json`.
        chapter: only what belongs to this chapter.
        kinds: only these kinds of items; empty: all.
        workers: how many processes side by side.

    Raises:
        UserError: a part of a test file would be kept as a proof of all of it.

    Returns:
        Whether everything passed. The last line printed is `N passed, N failed`.
    """
    if keep and chapter is not None:
        raise UserError("a chapter's tests are parts of files; keep the proofs of a whole run")
    with tempfile.TemporaryDirectory(prefix="nbkit-test-") as folder:
        counts = Path(folder, "counts.json")
        words = ["-m", "pytest", "-q", f"--rootdir={root}", "-p", PLUGIN, "-p", "no:cacheprovider"]
        words += ["-n", str(workers), "--dist=loadgroup", "--no-loadscope-reorder"]
        words += [f"--book-counts={counts}"]
        words += ["--book-all"] if everything else []
        words += ["--book-keep"] if keep else []
        words += [f"--book-only={kind}" for kind in kinds]
        words += [f"--chapter={chapter}"] if chapter is not None else []
        words += ["pyproject.toml"] if not kinds or "checks" in kinds else []
        words += [name for name in FOLDERS if (root / name).is_dir()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        # Options from outside could leave tests out of a file that is then called proven.
        environment.pop("PYTEST_ADDOPTS", None)
        sys.stdout.flush()
        done = subprocess.run(python_command(*words), cwd=root, env=environment, check=False)
        if not counts.exists():
            print("0 passed, 1 failed: pytest ended before its summary", flush=True)
            return False
        found = json.loads(counts.read_text())
    failed = found["failed"]
    all_stands = done.returncode == NOTHING_COLLECTED and found["standing"] and not found["due"]
    if done.returncode and not failed and not all_stands:
        failed = 1
        what = "nothing was run" if done.returncode == NOTHING_COLLECTED else "pytest failed"
        print(f"failed: {what} (its exit status is {done.returncode})")
    print(f"{found['passed']} passed, {failed} failed", flush=True)
    return failed == 0
