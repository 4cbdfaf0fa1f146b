"""The job grpo_gsm8k at a tiny size: both stages, resuming, GSM8K's files."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

from nbkit.data.gsm8k import write_gsm8k
from nbkit.envs.word_problems import draw_stories

pytestmark = [pytest.mark.slow, pytest.mark.chapter(23)]
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "cluster_scripts" / "grpo_gsm8k" / "train.py"
SPEC = spec_from_file_location("grpo_gsm8k_train", SCRIPT)
job = module_from_spec(SPEC)
sys.modules[SPEC.name] = job  # dataclasses look there
SPEC.loader.exec_module(job)

SMALL = job.Config(
    lessons=3, evaluate_on=4, steps=2, prompts=2, group_size=2, max_new_tokens=12, width=16,
    layers=1, heads=2, save_every=1,
)  # fmt: skip


def test_both_stages_and_a_run_that_goes_on(tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    for folder in (whole, halves):
        job.main(replace(SMALL, run_folder=str(folder)))
    unbroken = job.main(replace(SMALL, stage="grpo", run_folder=str(whole)))

    class StoppedError(RuntimeError):
        pass

    real = job.held_out_accuracy
    calls = []

    def fails_late(*arguments):
        calls.append(None)
        if len(calls) == 2:  # before the first step, and after the last
            raise StoppedError
        return real(*arguments)

    job.held_out_accuracy = fails_late
    try:
        with pytest.raises(StoppedError):
            job.main(replace(SMALL, stage="grpo", run_folder=str(halves)))
    finally:
        job.held_out_accuracy = real
    resumed = job.main(replace(SMALL, stage="grpo", run_folder=str(halves)))
    assert resumed["curve"] == unbroken["curve"]
    one, other = (
        torch.load(folder / "grpo" / "output" / "model.pt", weights_only=True)
        for folder in (whole, halves)
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(ValueError, match="finished"):
        job.main(replace(SMALL, stage="grpo", run_folder=str(whole)))


def test_files_in_the_form_of_gsm8k(tmp_path):
    for side, seed in (("train", 1), ("test", 2)):
        write_gsm8k(tmp_path / f"{side}.jsonl", [s.row for s in draw_stories(6, seed=seed)])
    settings = replace(SMALL, data=str(tmp_path), run_folder=str(tmp_path / "run"))
    problems, held_out = job.problems_of(settings)
    assert (len(problems), len(held_out)) == (6, 4)
    job.main(settings)
    assert job.main(replace(settings, stage="grpo"))["curve"]["step"] == [2]


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match="backend"):
        job.main(replace(SMALL, backend="zero3"))
    with pytest.raises(ValueError, match="from scratch"):
        job.main(replace(SMALL, model="some/model"))
