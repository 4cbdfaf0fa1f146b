import contextlib
import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
import yaml
from pydantic import ValidationError

from nbkit.rewards.text import contains_keyword
from nbkit.text.policies import make_policy
from nbkit.trainers.reinforce import ReinforceConfig
from studies._review_arms import CURVES, Arm, run_arm

pytestmark = pytest.mark.chapter(11)
ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "layers": 1,
    "width": 16,
    "heads": 2,
    "pretraining_steps": 2,
    "updates": 1,
    "batch_size": 4,
}


def start_job(settings, monkeypatch):
    """The script from its first line to its last, as a process would run it."""
    script = ROOT / "cluster_scripts" / "reinforce_text" / "train.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(settings)])
    with contextlib.chdir(ROOT):
        runpy.run_path(str(script), run_name="__main__")


@pytest.mark.slow
def test_the_tangled_job_runs_and_stamps_its_result(tmp_path, monkeypatch):
    out = tmp_path / "result.json"
    settings = tmp_path / "tiny.yaml"
    settings.write_text(yaml.safe_dump(TINY | {"seeds": [3], "out": str(out)}))
    start_job(settings, monkeypatch)
    result = json.loads(out.read_text())
    assert [(run["seed"], run["beta"]) for run in result["runs"]] == [(3, 0.0), (3, 0.1)]
    assert result["stamp"]["config"]["width"] == 16 and result["stamp"]["commit"]


@pytest.mark.slow
def test_a_misspelt_setting_of_the_job_is_refused(tmp_path, monkeypatch):
    settings = tmp_path / "bad.yaml"
    settings.write_text(yaml.safe_dump({"updates": "many"}))
    with pytest.raises(ValidationError, match="updates"):
        start_job(settings, monkeypatch)


def test_an_arm_starts_from_a_copy_and_reports_before_and_after(vocabulary):
    torch.manual_seed(0)
    base = make_policy("lstm", len(vocabulary), width=16)
    before = [p.clone() for p in base.parameters()]
    arm = Arm("lstm", contains_keyword("b"), {"learning_rate": 2e-2})
    config = ReinforceConfig(updates=8, batch_size=32, seed=1)
    run = run_arm(arm, base, vocabulary, config, keyword="b")
    assert all(torch.equal(a, b) for a, b in zip(before, base.parameters(), strict=True))
    assert set(run["curves"]) == set(CURVES) and len(run["curves"]["return"]) == 8
    assert run["after"]["keyword_rate"] > run["before"]["keyword_rate"]
    assert run["before"]["kl"] == pytest.approx(0, abs=1e-3)
    assert run["after"]["kl"] > 0.1
    assert run == run_arm(arm, base, vocabulary, config, keyword="b")


@pytest.mark.parametrize(
    "name",
    [
        "studies/results/reinforce_text.json",
        "studies/results/reinforce_drift.json",
        "studies/results/reinforce_trl.json",
        "cluster_scripts/reinforce_text/results/h100/result.json",
    ],
)
def test_recorded_results_carry_a_whole_stamp(name):
    stamp = json.loads((ROOT / name).read_text())["stamp"]
    assert len(stamp["commit"]) == 40 and stamp["clean"] is not False
    assert len(stamp["seeds"]) >= 3 and stamp["device_name"] and stamp["packages"]["torch"]
