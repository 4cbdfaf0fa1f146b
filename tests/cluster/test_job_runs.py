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


def gradients_of(rank: int, values: dict[str, Any], monkeypatch) -> list[torch.Tensor]:
    """What a rank of grpo_gsm8k alone would put into the average, in one process."""
    module, found = script("grpo_gsm8k"), []

    class Alone:
        is_initialized = staticmethod(lambda: True)
        get_world_size = staticmethod(lambda: 1)
        all_reduce = staticmethod(lambda gradient: found.append(gradient.clone()))

    start = module.Run.start

    def start_as(*args: Any, **kwargs: Any) -> Any:
        run = start(*args, **kwargs)
        run.rank = rank  # which prompts and completions it draws
        return run

    with monkeypatch.context() as patch:
        patch.setattr(module, "dist", Alone)
        patch.setattr(module, "reward_fn", by_ids)
        patch.setattr(module.Run, "start", start_as)
        run_main("grpo_gsm8k", **values)
    return found


def test_two_processes_of_grpo_take_the_step_of_one_on_both_batches(tmp_path, monkeypatch):
    values = {
        **{"stage": "grpo", "backend": "ddp", "steps": 1, "prompts": 2, "learning_rate": 1e-3},
        **{"max_new_tokens": 16, "evaluate_on": 2},
    }
    taught = tmp_path / "taught"
    short = {"lessons": 2, "max_new_tokens": 16, "evaluate_on": 2}
    run_main("grpo_gsm8k", stage="sft", **short, run_folder=str(taught))
    folders = [shutil.copytree(taught, tmp_path / name) for name in ("two", "first", "second")]
    settings = [values | {"run_folder": str(folder)} for folder in folders]
    # Not from the fork server: what its first call imports would hold for other tests' processes.
    run_ranks(rank_main, 2, "grpo_gsm8k", settings[0], timeout_s=200, start="spawn")
    there = torch.load(folders[0] / "grpo/output/model.pt", weights_only=True)

    mine = [gradients_of(rank, settings[1 + rank], monkeypatch) for rank in (0, 1)]
    assert any((a != b).any() for a, b in zip(*mine, strict=True)), "the ranks drew the same"
    model, _ = script("grpo_gsm8k").starting_point(
        script("grpo_gsm8k").Config(**settings[1]), _Input(taught / "sft" / "output")
    )
    for p, a, b in zip(model.parameters(), *mine, strict=True):
        p.grad = (a + b) / 2
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    rate = read_rows(folders[0] / "grpo/metrics.jsonl")[0]["learning_rate"]
    torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.0).step()
    moved = 0.0
    before = torch.load(taught / "sft/output/model.pt", weights_only=True)
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(there[name], weight, atol=1e-5, rtol=0)
        moved = max(moved, (weight - before[name]).abs().max().item())
    assert moved > 0.9 * rate


class _Input:
    """A run of which only the output of an earlier stage is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def input(self, stage: str) -> Path:
        assert stage == "sft"
        return self.folder
