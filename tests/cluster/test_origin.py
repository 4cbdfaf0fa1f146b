"""What a job is told of its code when it is submitted, and what its stamp then says."""

import json
from pathlib import Path

import pytest

from bookkit.jobs.submit import Submission, run_here, submit
from nbkit.runs import code_tree
from nbkit.runs.run import Run
from tests.authoring.book import Book

REPOSITORY = Path(__file__).resolve().parents[2]
SHOW = 'printf "%s\\n%s\\n" "$NBKIT_COMMIT" "$NBKIT_TREE"'
COMMIT, TREE = code_tree.COMMIT_VARIABLE, code_tree.TREE_VARIABLE


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMIT, raising=False)
    monkeypatch.delenv(TREE, raising=False)


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submission:
    """A Slurm that only shows what it was handed."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{SHOW}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return Submission(("sbatch",), tmp_path / "run")


def test_slurm_is_handed_the_commit_and_its_tree(sbatch: Submission) -> None:
    wanted = code_tree.origin(REPOSITORY)
    if not wanted:
        pytest.skip("the tests run outside a checkout")
    assert submit(sbatch, REPOSITORY).splitlines() == [wanted[COMMIT], wanted[TREE]]


def test_a_job_on_this_machine_too(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    assert run_here(Submission(("sh", "-c", f"{SHOW} >{seen}"), tmp_path / "run"), REPOSITORY)
    assert seen.read_text().splitlines() == list(code_tree.origin(REPOSITORY).values())


def test_what_the_submitter_names_counts(
    sbatch: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy's commit, not that of a repository around the copy; and no tree of another commit."""
    monkeypatch.setenv(COMMIT, "abc")
    assert submit(sbatch, REPOSITORY).splitlines() == ["abc"]


def test_outside_a_checkout_nothing_is_named(sbatch: Submission, tmp_path: Path) -> None:
    assert submit(sbatch, tmp_path) == ""


def test_a_run_s_stamp_holds_the_tree_of_the_files_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that was edited while the job waited in the queue is seen when it starts."""
    here = code_tree.tree_of_files(REPOSITORY)
    for tree, clean in ((here, True), (here | {"nbkit": "0" * 64}, False)):
        monkeypatch.setenv(COMMIT, "abc")
        monkeypatch.setenv(TREE, code_tree.as_text(tree))
        folder = tmp_path / str(clean)
        with Run.start({"lr": 1.0}, seeds=[0], folder=folder) as run:
            run.finish({"loss": 1.0})
        stamp = json.loads((folder / "result.json").read_text())["stamp"]
        assert stamp["commit"] == "abc" and stamp["clean"] is clean
        assert stamp["tree"] == {name: here[name] for name in ("nbkit", "cluster_scripts")}


def test_the_command_prints_what_a_copy_needs() -> None:
    output = Book(REPOSITORY).nbkit("job", "origin").splitlines()
    wanted = code_tree.origin(REPOSITORY)
    assert output == [f"export {name}={value}" for name, value in wanted.items()]


def test_the_command_says_where_there_is_no_commit(tmp_path: Path) -> None:
    made = Book(tmp_path)
    made.write("pyproject.toml", "")
    made.write("nbkit/__init__.py", "")
    assert "no checkout of git" in made.nbkit("job", "origin", status=1)
