"""The jobs' own loops: stopped and resumed they end where an unbroken run does; two equal one."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nbkit.cluster.metrics_file import read_rows
from nbkit.cluster.preemption import STOP, Preempted
from nbkit.parallel.launch import run_ranks

from .train_scripts import by_ids, rank_main, run_main, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Job: what its Config is given, and the stages before the one that is stopped.
STOPPED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "dpo_7b": ({"steps": 3}, []),
    "grpo_gsm8k": ({"stage": "grpo", "evaluate_on": 4, "max_new_tokens": 24}, ["sft"]),
    "rlhf_7b": ({"stage": "reward"}, ["sft"]),
    "sft_7b": ({"steps": 4}, []),
}


def rows(folder: Path, stage: str) -> list[dict[str, float]]:
    """The metrics, but for those that say how long something took."""
    found = read_rows(folder / stage / "metrics.jsonl")
    return [
        {k: v for k, v in row.items() if not any(word in k for word in ("second", "time"))}
        for row in found
    ]


@pytest.mark.parametrize("name", sorted(STOPPED))
def test_stopped_after_its_first_step_it_ends_like_an_unbroken_run(name, tmp_path):
    values, before = STOPPED[name]
    stage = values.get("stage", "")
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    for earlier in before:
        run_main(name, **values | {"stage": earlier, "run_folder": str(unbroken)})
    if before:
        shutil.copytree(unbroken, broken)
    run_main(name, **values, run_folder=str(unbroken))
    broken.mkdir(exist_ok=True)
    (broken / STOP).touch()
    with pytest.raises(Preempted):
        run_main(name, **values, run_folder=str(broken))
    assert len(rows(broken, stage)) == 1
    (broken / STOP).unlink()
    run_main(name, **values, run_folder=str(broken))
    assert len(rows(unbroken, stage)) > 1
    assert rows(broken, stage) == rows(unbroken, stage)


def test_two_processes_of_grpo_take_the_steps_of_one(tmp_path, monkeypatch):
    """Two prompts a process against four in one: the same completions, rewards and weights."""
    short = {"max_new_tokens": 16, "evaluate_on": 2}
    values = {"stage": "grpo", "steps": 2, "learning_rate": 1e-3, **short}
    one, two = tmp_path / "one", tmp_path / "two"
    run_main("grpo_gsm8k", stage="sft", lessons=2, **short, run_folder=str(one))
    shutil.copytree(one, two)
    before = torch.load(one / "sft/output/model.pt", weights_only=True)
    # Not from the fork server: what its first call imports would hold for other tests' processes.
    shared = values | {"backend": "ddp", "prompts": 2, "run_folder": str(two)}
    run_ranks(rank_main, 2, "grpo_gsm8k", shared, timeout_s=200, start="spawn")
    monkeypatch.setattr(script("grpo_gsm8k"), "reward_fn", by_ids)
    run_main("grpo_gsm8k", **values, prompts=4, run_folder=str(one))

    there, here = (torch.load(f / "grpo/output/model.pt", weights_only=True) for f in (two, one))
    for name, weight in here.items():
        torch.testing.assert_close(there[name], weight, atol=1e-5, rtol=0)
    moved = max((weight - before[name]).abs().max().item() for name, weight in here.items())
    assert moved > 1e-4
    for a, b in zip(rows(two, "grpo"), rows(one, "grpo"), strict=True):
        assert a["reward"] == pytest.approx(b["reward"], abs=1e-6)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)
        assert a["gradient_norm"] > 0
