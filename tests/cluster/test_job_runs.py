"""The jobs' own loops: stopped and resumed they end where an unbroken run does; two equal one."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from nbkit.runs.metrics_file import read_rows
from nbkit.runs.preemption import STOP, Preempted
from nbkit.runs.run import Run
from tests.parallel import jobs

from .train_scripts import by_ids, rank_main, run_main, script

pytestmark = pytest.mark.slow

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


@contextmanager
def stopped_at_its_first_step(folder: Path) -> Iterator[None]:
    """A person's STOP appears when the first step is logged; the run leaves as one that stopped."""
    log = Run.log

    def log_and_stop(run: Run, *arguments: Any, **settings: Any) -> None:
        log(run, *arguments, **settings)
        (folder / STOP).touch()

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Preempted):
        patch.setattr(Run, "log", log_and_stop)
        yield
    (folder / STOP).unlink()


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
    with stopped_at_its_first_step(broken):
        run_main(name, **values, run_folder=str(broken))
    assert len(rows(broken, stage)) == 1
    run_main(name, **values, run_folder=str(broken))
    assert len(rows(unbroken, stage)) > 1
    assert rows(broken, stage) == rows(unbroken, stage)


@pytest.mark.parametrize("name", ["rlhf_7b", "sft_7b"])
def test_data_are_looked_for_before_the_model_is_loaded(name, tmp_path):
    """A mistake in a name costs no minutes of loading: the model does not exist either."""
    absent = str(tmp_path / "absent")
    with pytest.raises(ValueError, match=rf"dataset {absent}: a path, and nothing is there"):
        run_main(name, data=absent, model=str(tmp_path / "no_model"))


def test_grpo_measures_its_beginning_once(tmp_path, monkeypatch):
    """A resumed run keeps what was measured before its first step."""
    short = {"max_new_tokens": 16, "evaluate_on": 4}
    values = {"stage": "grpo", "steps": 2, "learning_rate": 1e-2, **short}
    taught = run_main("grpo_gsm8k", stage="sft", lessons=2, **short, run_folder=str(tmp_path))
    with stopped_at_its_first_step(tmp_path):
        run_main("grpo_gsm8k", **values, run_folder=str(tmp_path))
    module, calls = script("grpo_gsm8k"), []

    def fake(*arguments):
        calls.append(arguments)
        return dict.fromkeys(taught, -1.0)

    monkeypatch.setattr(module, "held_out_accuracy", fake)
    learned = run_main("grpo_gsm8k", **values, run_folder=str(tmp_path))
    assert len(calls) == 1  # after its last step
    assert learned["before"] == taught
    assert learned["after"] == dict.fromkeys(taught, -1.0)


VALUES = {"stage": "grpo", "steps": 2, "learning_rate": 1e-3}
SHORT = {"max_new_tokens": 16, "evaluate_on": 2}


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    """A run of one process with four prompts; the folder of its first stage, and of the run."""
    base, one = (tmp_path_factory.mktemp(name) for name in ("base", "one"))
    run_main("grpo_gsm8k", stage="sft", lessons=2, **SHORT, run_folder=str(base))
    shutil.copytree(base / "sft", one / "sft")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script("grpo_gsm8k"), "reward_fn", by_ids)
        run_main("grpo_gsm8k", **VALUES, **SHORT, prompts=4, run_folder=str(one))
    return base, one


def test_two_processes_teach_what_one_does(in_one_process, tmp_path):
    """Sharded, the first stage leaves the weights of one process, all of them under all names."""
    shared = {"stage": "sft", "lessons": 2, "backend": "fsdp2", "run_folder": str(tmp_path)} | SHORT
    jobs.ranks(2, rank_main, "grpo_gsm8k", shared)
    there, here = (
        torch.load(f / "sft/output/model.pt", weights_only=True)
        for f in (tmp_path, in_one_process[0])
    )
    assert there.keys() == here.keys() and "lm_head.weight" in here
    for name, weight in here.items():
        # Adam divides by the size of a gradient, so a small one shows its rounding.
        torch.testing.assert_close(there[name], weight, atol=1e-3, rtol=0)


@pytest.mark.parametrize("backend", ["ddp", "fsdp2", "zero3"])
def test_two_processes_of_grpo_take_the_steps_of_one(backend, in_one_process, tmp_path):
    """Two prompts a process against four in one: the same completions, rewards and weights."""
    base, one = in_one_process
    two = tmp_path / "two"
    shutil.copytree(base, two)
    before = torch.load(one / "sft/output/model.pt", weights_only=True)
    shared = VALUES | SHORT | {"backend": backend, "prompts": 2, "run_folder": str(two)}
    jobs.ranks(2, rank_main, "grpo_gsm8k", shared)

    there, here = (torch.load(f / "grpo/output/model.pt", weights_only=True) for f in (two, one))
    assert there.keys() == here.keys()
    for name, weight in here.items():
        torch.testing.assert_close(there[name], weight, atol=1e-5, rtol=0)
    moved = max((weight - before[name]).abs().max().item() for name, weight in here.items())
    assert moved > 1e-4
    for a, b in zip(rows(two, "grpo"), rows(one, "grpo"), strict=True):
        assert a["reward"] == pytest.approx(b["reward"], abs=1e-6)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)
        assert a["gradient_norm"] > 0
        for name in b:
            if name.startswith("held out"):
                assert a[name] == pytest.approx(b[name])
    both = [json.loads((f / "grpo/result.json").read_text()) for f in (two, one)]
    assert both[0]["parameters"] == both[1]["parameters"]
    assert both[0]["before"] == both[1]["before"]
