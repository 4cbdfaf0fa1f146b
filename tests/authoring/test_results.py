"""Recorded results: which are stale, what their stamps claim, the line that a page shows."""

import json
import subprocess
from pathlib import Path

import pytest

from bookkit.authoring import result_line
from bookkit.authoring.backfill import backfill
from bookkit.authoring.code import code_of
from bookkit.authoring.result_line import MEASURED_MIME, entry_of, measured, measured_files
from bookkit.authoring.results import RECORDED, Results, State, named
from bookkit.authoring.verify import verify_stamps
from nbkit.errors import UserError
from nbkit.runs import code_tree
from tests.authoring.book import STAMP
from tests.authoring.test_code import FILES, write

RESULT = "studies/results/curve.json"


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ("git", "-C", str(root), *identity, *words)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a commit")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one study and its result, recorded before stamps held the code."""
    for name, text in FILES.items():
        write(tmp_path, name, text)
    git(tmp_path, "init", "-q")
    record(tmp_path, commit=commit(tmp_path), clean=True)
    return tmp_path


def record(root: Path, name: str = RESULT, **stamp: object) -> None:
    own = {
        "clean": None,
        "started": "2026-11-28T01:00:00+00:00",
        "device_name": "AMD EPYC",
        "packages": {"torch": "2.13.0"},
    }
    whole = STAMP | own | stamp
    write(root, name, json.dumps({"stamp": whole, "runs": []}))


def edit_loss(root: Path) -> None:
    write(root, "nbkit/losses.py", FILES["nbkit/losses.py"].replace("2 * x", "3 * x"))


def state(root: Path) -> str:
    return str(Results(root).state_of(RESULT))


def test_the_stamp_s_own_code_is_compared_with_today_s(root: Path) -> None:
    assert state(root) == "which code it ran was not noted"
    record(root, commit="x", code=code_of(root, root / "studies/curve.py"))
    assert state(root) == "measured with this code"
    edit_loss(root)
    assert state(root) == "the code has changed since, in nbkit.losses.loss"
    (root / "studies/curve.py").unlink()
    assert state(root) == "which code it ran was not noted"


def test_old_results_get_their_code_from_their_commit(root: Path) -> None:
    edit_loss(root)
    commit(root)
    assert list(backfill(root)) == []
    content = json.loads((root / RECORDED).read_text())
    assert content["computed"] == "from commit"
    assert state(root) == "the code has changed since, in nbkit.losses.loss"
    write(root, "nbkit/losses.py", FILES["nbkit/losses.py"])
    assert state(root) == "measured with this code"
    # what was noted for one run says nothing of a later one
    record(root, commit=git(root, "rev-parse", "HEAD"))
    assert state(root) == "which code it ran was not noted"


def test_what_a_commit_does_not_hold_stays_unknown(root: Path) -> None:
    record(root, "studies/results/curve_gpu.json", commit="1" * 40)
    write(root, "studies/late.py", "")
    first = git(root, "rev-parse", "HEAD")
    record(root, "studies/results/late.json", commit=first)
    assert sorted(backfill(root)) == [
        "studies/results/curve_gpu.json: its commit 1111111 is not in this history",
        f"studies/results/late.json: commit {first[:7]} does not hold studies/late.py",
    ]
    known = {path.name: Results(root).state(path, s).known for path, s in Results(root).files()}
    assert known == {"curve.json": True, "curve_gpu.json": False, "late.json": False}


def test_a_few_symbols_are_named_then_counted() -> None:
    assert named(["b"]) == "b" and named(["b", "a"]) == "a and b"
    assert named(["m (on import)", "b", "a"]) == "a, b and m (on import)"
    assert named([*"edcba"]) == "a, b, c and 2 more"
    assert not State(known=True).is_stale and State(known=True, changed=["a"]).is_stale


def tree(root: Path) -> dict[str, str]:
    return code_tree.tree_of_files(root, ("nbkit", "studies"))


def test_a_true_stamp_is_silent(root: Path) -> None:
    assert verify_stamps(root) == []  # a checkout's, from before the tree was noted
    record(root, commit=git(root, "rev-parse", "HEAD"), clean=True, tree=tree(root))
    assert verify_stamps(root) == []


def test_a_stamp_that_says_clean_with_other_code_is_an_error(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    edit_loss(root)
    other = tree(root)
    for clean, is_error in ((True, True), (None, False), (False, False)):
        record(root, commit=head, clean=clean, tree=other)
        (found,) = verify_stamps(root)
        assert found.file == RESULT and found.is_error is is_error, found
        assert "nbkit" in found.problem and "studies" not in found.problem
    record(root, commit=commit(root), clean=False, tree=tree(root))
    (found,) = verify_stamps(root)
    assert found.is_error and "says unclean" in found.problem


def test_what_cannot_be_verified_is_said(root: Path) -> None:
    for stamp, said in (
        ({"commit": "abc", "clean": None}, "copied code, its tree was not noted"),
        ({"commit": "abc", "clean": False}, "it ran with uncommitted changes"),
        ({"commit": "abcdefgh", "clean": True, "tree": tree(root)}, "abcdefg is not in this his"),
    ):
        record(root, **stamp)
        (found,) = verify_stamps(root)
        assert said in str(found) and not found.is_error


def test_a_program_that_was_in_no_commit_is_said(root: Path) -> None:
    """Git's status of tracked files alone called such a run clean."""
    write(root, "studies/late.py", "")
    record(root, "studies/results/late.json", commit=git(root, "rev-parse", "HEAD"), clean=True)
    (found,) = verify_stamps(root)
    assert found.file == "studies/results/late.json" and not found.is_error
    assert "does not hold studies/late.py, which ran" in found.problem


def test_heads_are_verified_too(root: Path) -> None:
    edit_loss(root)
    stamp = {"commit": git(root, "rev-parse", "HEAD"), "clean": True, "tree": tree(root)}
    write(root, "studies/heads/curve.json", json.dumps({"head_stamp": stamp, "head": {}}))
    (found,) = verify_stamps(root)
    assert found.file == "studies/heads/curve.json" and found.is_error


def test_the_line_of_a_page(root: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(result_line, "ROOT", root)
    monkeypatch.chdir(root / "studies")
    record(root, commit="abcdef123", clean=True)
    measured("results/curve.json")
    line = f"{RESULT}: measured 2026-11-28 on AMD EPYC, torch 2.13.0; commit abcdef1"
    assert capsys.readouterr().out == line + "\n"
    assert entry_of(root / RESULT, root) == {"file": RESULT, "line": line}
    for clean, words in ((False, " with uncommitted changes"), (None, ", copied")):
        record(root, commit="abcdef123", clean=clean)
        assert entry_of(root / RESULT, root)["line"] == line + words
    for path in ("/etc/hosts", root / "studies/curve.py", root / "gone.json"):
        with pytest.raises(UserError):
            measured(path)
    write(root, "bare.json", "{}")
    with pytest.raises(UserError, match="has no stamp"):
        measured(root / "bare.json")
    with pytest.raises(UserError, match="needs a result file"):
        measured()


def test_the_lines_of_a_notebook_are_found() -> None:
    shown = {"output_type": "display_data", "data": {MEASURED_MIME: {"file": "a", "line": "a: b"}}}
    cells = [
        {"cell_type": "markdown", "source": MEASURED_MIME},
        {"cell_type": "code", "outputs": [{"output_type": "stream", "text": "x"}, shown, shown]},
    ]
    assert measured_files({"cells": cells}) == ["a", "a"]


def test_every_result_of_the_book_has_a_program_and_a_readable_stamp() -> None:
    root = result_line.ROOT
    found = list(Results(root).files())
    assert len(found) >= 50
    for path, stamp in found:
        assert entry_of(path, root)["line"].startswith(path.relative_to(root).as_posix())
        assert stamp["commit"]
