"""`benchmarks/generate.py`: its aims, its limits, and a section of it on a CPU."""

import json
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import generate as benchmark  # noqa: E402
from generate_bench import Bench, summary  # noqa: E402
from side_by_side import start  # noqa: E402

pytestmark = pytest.mark.chapter(31)


def ok(result):
    return {"status": "ok", "result": result}


def test_aims_are_met_or_not():
    step = {"batch": 64, "bytes": 1.2e9, "tokens_per_second": 1.0}
    sections = {
        "bandwidth": ok({"bytes_per_second": 3e12}),
        "ours 0.5B": ok([{**step, "ms_per_step": 1.5}]),
        "ours 7B": ok([{**step, "bytes": 15e9, "ms_per_step": 10.0}]),
        "library dynamic 0.5B": ok([{"batch": 64, "ms_per_step": 78.0}]),
        "ours 1.5B": {"status": "failed", "error": "…"},
    }
    found = summary(sections)
    aims = {aim["aim"]: (round(aim["value"], 3), aim["met"]) for aim in found["aims"]}
    assert aims == {
        "0.5B, batch 64: at most 4.0 times the floor": (3.75, True),
        "7B, batch 64: at most 1.5 times the floor": (2.0, False),
        "0.5B, batch 64: at least 30 times transformers.generate": (52.0, True),
    }


def test_a_section_that_fails_or_hangs_is_recorded_and_the_next_one_runs(tmp_path, capsys):
    bench = Bench("cpu", start(tmp_path / "out.json", seeds=[0], config={}), 100.0)
    bench.run("fails", 100, lambda: 1 / 0)
    bench.run("hangs", 0.1, lambda: [time.sleep(0.01) for _ in range(30_000)])
    bench.run("works", 100, lambda: {"x": 1})
    sections = json.loads((tmp_path / "out.json").read_text())["sections"]
    assert sections["fails"]["error"].startswith("ZeroDivisionError")
    assert sections["hangs"]["status"] == "out of time"
    assert sections["works"]["result"] == {"x": 1}


def test_floor_bytes_by_hand():
    from tests.generate.models import make

    model = make("llama")
    numbers = sum(p.numel() for p in model.parameters()) - 97 * 64  # the untied embedding
    found = benchmark.parts.floor_bytes(model, 3, 10, 4)
    assert found["weight_bytes"] == 4 * numbers
    assert found["cache_bytes"] == 3 * 12 * (2 * 2 * 2 * 16 * 4)
    tied = make("qwen2")
    numbers = sum(p.numel() for p in tied.parameters())
    assert benchmark.parts.floor_bytes(tied, 1, 2, 2)["weight_bytes"] == 4 * numbers


@pytest.mark.slow
def test_one_command_on_a_cpu(tmp_path, monkeypatch):
    out = tmp_path / "generate.json"
    only = ["--only", "pairs tiny batch 1", "vllm", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["generate.py", "--device", "cpu", "--quick", *only])
    benchmark.main()
    data = json.loads(out.read_text())
    assert {entry["status"] for entry in data["sections"].values()} == {"ok"}
    assert len(data["sections"]["pairs tiny batch 1"]["result"]["ours_seconds"]) == 2
    assert data["stamp"]["config"]["quick"] is True
