import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bookkit.authoring.study import start_study
from nbkit.runs import code_tree, provenance


def started(**options):
    return provenance.start(seeds=(), config={}, watched=("nbkit",), **options)


def test_a_study_is_stamped_and_written_whole(tmp_path):
    out = tmp_path / "results" / "s.json"
    start_study(out, seeds=(1, 2), config={"lr": 0.1}).finish({"runs": [3]})
    stored = json.loads(out.read_text())
    stamp = stored["stamp"]
    assert stored["runs"] == [3] and stamp["seeds"] == [1, 2] and stamp["config"] == {"lr": 0.1}
    assert stamp["started"] <= stamp["ended"] and len(stamp["config_sha256"]) == 64
    assert stamp["device_name"] and "torch" in stamp["packages"] and stamp["commit"]
    assert set(stamp["tree"]) == {"nbkit", "studies"}
    assert [path.name for path in out.parent.iterdir()] == ["s.json"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.json"
    provenance.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        provenance.write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_for_a_copy_of_the_code_the_submitter_names_the_commit_and_its_tree(monkeypatch):
    """Clean is what the files say against the named tree, not what the submitter says."""
    monkeypatch.setenv(code_tree.COMMIT_VARIABLE, "abc")
    monkeypatch.delenv(code_tree.TREE_VARIABLE, raising=False)
    origin = started()
    assert origin.commit == "abc" and origin.clean is None
    here = code_tree.tree_of_files(provenance.ROOT)
    assert origin.tree == {"nbkit": here["nbkit"]}
    monkeypatch.setenv(code_tree.TREE_VARIABLE, code_tree.as_text(here))
    assert started().clean is True
    # another folder of the commit does not matter to this run
    monkeypatch.setenv(code_tree.TREE_VARIABLE, code_tree.as_text(here | {"studies": "0" * 64}))
    assert started().clean is True
    monkeypatch.setenv(code_tree.TREE_VARIABLE, code_tree.as_text(here | {"nbkit": "0" * 64}))
    assert started().clean is False
    monkeypatch.setenv(code_tree.TREE_VARIABLE, code_tree.as_text({"studies": "0" * 64}))
    assert started().clean is None
    monkeypatch.setenv(code_tree.TREE_VARIABLE, "a cut-off text")
    with pytest.raises(ValueError, match="nbkit job origin"):
        started()


def test_in_a_checkout_the_files_are_compared_with_its_commit(monkeypatch):
    monkeypatch.delenv(code_tree.COMMIT_VARIABLE, raising=False)
    here = code_tree.tree_of_files(provenance.ROOT, ("nbkit",))
    for committed, clean in ((here, True), ({"nbkit": "0" * 64}, False), (None, None)):
        monkeypatch.setattr(code_tree, "tree_of_commit", lambda *_, tree=committed: tree)
        assert started().clean is clean
    monkeypatch.setattr(code_tree, "git", lambda *arguments, **options: None)
    assert started().commit == "unknown" and started().clean is None


def test_a_program_of_the_book_notes_the_code_that_it_reaches(monkeypatch):
    assert started().code is None  # pytest is none
    program = provenance.ROOT / "studies" / "kl_placement.py"
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=str(program)))
    code = started().stamp()["code"]
    assert code["script"] == "studies/kl_placement.py" and code["digest"]
    assert "nbkit.losses.policy_gradient_loss" in code["symbols"]
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=str(Path("/x/y.py"))))
    assert started().code is None
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())  # a notebook's kernel
    assert started().stamp()["code"] is None
