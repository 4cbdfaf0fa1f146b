import json

import pytest

from nbkit import provenance
from nbkit.authoring.study import StudyMismatch, compare_head, start_study


def test_a_study_is_stamped_and_written_whole(tmp_path):
    out = tmp_path / "results" / "s.json"
    start_study(out, seeds=(1, 2), config={"lr": 0.1}).finish({"runs": [3]})
    stored = json.loads(out.read_text())
    stamp = stored["stamp"]
    assert stored["runs"] == [3] and stamp["seeds"] == [1, 2] and stamp["config"] == {"lr": 0.1}
    assert stamp["started"] <= stamp["ended"] and len(stamp["config_sha256"]) == 64
    assert stamp["device_name"] and "torch" in stamp["packages"] and stamp["commit"]
    assert [path.name for path in out.parent.iterdir()] == ["s.json"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.json"
    provenance.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        provenance.write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_for_a_copy_of_the_code_the_submitter_names_the_commit(monkeypatch):
    monkeypatch.setenv(provenance.COMMIT_VARIABLE, "abc")
    origin = provenance.start(seeds=(), config={}, watched=())
    assert origin.commit == "abc" and origin.clean is None
    monkeypatch.delenv(provenance.COMMIT_VARIABLE)
    monkeypatch.setattr(provenance, "_git", lambda *arguments: None)
    assert provenance.start(seeds=(), config={}, watched=()).commit == "unknown"


def test_heads_agree_within_tolerance_or_say_where_they_do_not():
    compare_head([1.0, 2.0], [1.0, 2.05], tol=0.1)
    with pytest.raises(StudyMismatch, match=r"figure 1 is 2\.5 now and 2 in"):
        compare_head([1.0, 2.0], [1.0, 2.5], tol=0.1)
    with pytest.raises(StudyMismatch, match="figure 0"):
        compare_head([1.0], [float("nan")], tol=0.1)
    with pytest.raises(StudyMismatch, match="1 figures now, 2 stored"):
        compare_head([1.0, 2.0], [1.0], tol=0.1)
