"""What a job's checkpoints hold is exported by one command, and equals what the job puts out."""

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from bookkit.checkpoint_commands import app
from nbkit.text.scalar_models import ScalarModel

from .train_scripts import run_main

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]


def export(run: Path, out: Path, *more: str) -> Path:
    done = CliRunner().invoke(app, ["export", str(run), str(out), *more])
    assert done.exit_code == 0, done.exception
    return out


def language_model(folder: Path) -> dict[str, torch.Tensor]:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()


def agree(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys() and one
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("job", ["sft_7b", "dpo_7b"])
def test_a_job_of_one_stage(job: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_main(job, steps=2, save_every=2, run_folder=str(run))
    agree(language_model(export(run, tmp_path / "hub")), language_model(run / "output"))


def test_the_stages_of_rlhf(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for stage in ("sft", "reward", "ppo"):
        run_main("rlhf_7b", stage=stage, steps=2, save_every=2, run_folder=str(run))
        found = export(run / stage, tmp_path / stage)
        if stage == "reward":
            both = (ScalarModel.from_pretrained(x) for x in (found, run / "reward" / "output"))
            agree(*(scalar.state_dict() for scalar in both))
        else:
            agree(language_model(found), language_model(run / stage / "output"))
    value = export(run / "ppo", tmp_path / "value", "--shards", "shards_value")
    shapes = {name: x.shape for name, x in ScalarModel.from_pretrained(value).state_dict().items()}
    reward = ScalarModel.from_pretrained(tmp_path / "reward").state_dict()
    assert shapes == {name: x.shape for name, x in reward.items()}
    assert not torch.equal(ScalarModel.from_pretrained(value).head.weight, reward["head.weight"])


def test_grpo_on_word_problems(tmp_path: Path) -> None:
    run, small = tmp_path / "run", {"width": 16, "layers": 1, "heads": 2, "lessons": 3}
    small |= {"evaluate_on": 4, "steps": 2, "prompts": 2, "group_size": 2, "max_new_tokens": 12}
    for stage in ("sft", "grpo"):
        run_main("grpo_gsm8k", stage=stage, save_every=1, run_folder=str(run), **small)
    found = language_model(export(run / "grpo", tmp_path / "hub"))
    agree(found, torch.load(run / "grpo" / "output" / "model.pt", weights_only=True) | {
        name: x for name, x in found.items() if name == "lm_head.weight"
    })  # fmt: skip
