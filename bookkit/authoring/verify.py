"""Whether the stamps of recorded results are true: the code that ran is the code of the commit."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from bookkit.authoring.code import RESULTS, script_of
from bookkit.authoring.heads import FOLDER as HEADS
from bookkit.authoring.results import Results
from nbkit.runs import code_tree


class StampFinding(NamedTuple):
    """What is to be said of a stamp.

    Attributes:
        file: the result, from the root.
        problem: what was found.
        is_error: whether the stamp says what is not so; else it only says less than it could.

    """

    file: str
    problem: str
    is_error: bool

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}: {self.problem}"


def verify_stamps(root: Path) -> list[StampFinding]:
    """Compare the tree in every stamp with the one that git gives for its commit.

    Args:
        root: of the checkout, with git. Results, and the heads of studies.

    """
    stamps = [
        *Results(root).files(),
        *(
            (path, json.loads(path.read_text(encoding="utf-8"))["head_stamp"])
            for path in sorted((root / HEADS).glob("*.json"))
        ),
    ]
    return [
        StampFinding(path.relative_to(root).as_posix(), *said)
        for path, stamp in stamps
        for said in (_verified(root, stamp), _without_program(root, path, stamp))
        if said is not None
    ]


def _verified(root: Path, stamp: dict[str, Any]) -> tuple[str, bool] | None:
    """What is to be said of one stamp, and whether it is an error."""
    tree, clean, commit = stamp.get("tree"), stamp.get("clean"), stamp["commit"]
    if not tree:
        if clean is None:
            return "copied code, its tree was not noted", False
        return None if clean else ("it ran with uncommitted changes", False)
    committed = code_tree.tree_of_commit(root, commit, tuple(tree))
    if committed is None:
        return f"its commit {commit[:7]} is not in this history (a shallow clone?)", False
    other = sorted(folder for folder in tree if tree[folder] != committed[folder])
    where = ", ".join(other)
    if clean and other:
        return f"it says clean, but {where} of commit {commit[:7]} is other code", True
    if clean is False and not other:
        return f"it says unclean, but its code is that of commit {commit[:7]}", True
    if other:
        return f"it ran other code than commit {commit[:7]} holds, in {where}", False
    return None


def _without_program(root: Path, path: Path, stamp: dict[str, Any]) -> tuple[str, bool] | None:
    """Whether the program of a result is in no commit: it was not tracked when it ran.

    Only stamps without a tree can hide it: they looked at tracked files alone.
    """
    if stamp.get("tree") or RESULTS not in path.parts:
        return None
    script, commit = script_of(root, path), stamp["commit"]
    if script is None or code_tree.git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return None
    name = script.relative_to(root).as_posix()
    if code_tree.git(root, "cat-file", "-e", f"{commit}:{name}") is not None:
        return None
    return f"its commit {commit[:7]} does not hold {name}, which ran", False
