"""The job rlhf_7b from end to end: the real script, a small model in a folder, HH's format."""

import contextlib
import importlib.util
import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from pydantic import TypeAdapter

from nbkit.envs.helpful import preference_pairs

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "cluster_scripts" / "rlhf_7b" / "train.py"
pytestmark = [pytest.mark.chapter(21), pytest.mark.slow]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model and its tokenizer as `from_pretrained` reads them, and a file with a broken row."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    folder = tmp_path_factory.mktemp("given")
    letters = {letter: i for i, letter in enumerate(sorted(ByteLevel.alphabet()))}
    end = "<|endoftext|>"  # end and pad are one, as in Qwen2.5's base models
    tokenizer = Qwen2Tokenizer(
        vocab={**letters, end: len(letters)}, merges=[], eos_token=end, pad_token=end, unk_token=end
    )
    shape = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=64, max_position_embeddings=512,
        tie_word_embeddings=True, eos_token_id=len(letters), pad_token_id=len(letters),
    )  # fmt: skip
    torch.manual_seed(3)
    Qwen2ForCausalLM(shape).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    rows = []
    for pair in preference_pairs(60, seed=4):
        start = f"\n\nHuman: {pair.question.text}\n\nAssistant:"
        rows.append({"chosen": f"{start} {pair.chosen}", "rejected": f"{start} {pair.rejected}"})
    rows[7]["rejected"] = rows[7]["chosen"]
    data = folder / "train.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return {
        "model": str(folder / "model"),
        "data": str(data),
        "max_prompt": 96,
        "max_new_tokens": 32,
    }


def train() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("rlhf_7b_train", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_three_scripts_each_from_the_last_ones_output(
    given: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the first line of the script to its last; test_jobs_run.py starts one as a command."""
    for stage in ("sft", "reward", "ppo"):
        config = tmp_path / f"{stage}.yaml"
        settings = {**given, "stage": stage, "run_folder": str(tmp_path / "run"), "steps": 2}
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(config)])
        with contextlib.chdir(tmp_path):
            runpy.run_path(str(SCRIPT), run_name="__main__")
        printed = capsys.readouterr().out
        if stage == "sft":
            assert "59 of 60 rows kept" in printed
            assert "equal pair: row 8" in printed
        assert (tmp_path / "run" / stage / "result.json").exists()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    output = tmp_path / "run" / "ppo" / "output"
    model, tokenizer = (
        made.from_pretrained(output) for made in (AutoModelForCausalLM, AutoTokenizer)
    )
    assert len(tokenizer) == model.config.vocab_size
    first = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "sft" / "output")
    moved = [
        (a - b).abs().max().item()
        for a, b in zip(model.parameters(), first.parameters(), strict=True)
    ]
    assert 0 < max(moved) < 0.1


def test_a_killed_run_goes_on_to_the_same_end(given: dict[str, Any], tmp_path: Path) -> None:
    job = train()
    base = job.Config(**given, steps=3, save_every=1)
    ends = {}
    for name in ("whole", "killed"):
        folder = str(tmp_path / name)
        for stage in ("sft", "reward"):
            job.main(replace(base, stage=stage, run_folder=folder))
        config = replace(base, stage="ppo", run_folder=folder)
        if name == "killed":
            (tmp_path / name / "STOP").touch()
            with pytest.raises(SystemExit):
                job.main(config)
            (tmp_path / name / "STOP").unlink()
        job.main(config)
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(tmp_path / name / "ppo" / "output")
        ends[name] = model.state_dict()
    for key, value in ends["whole"].items():
        assert torch.equal(value, ends["killed"][key]), key


def test_adapters_have_the_reference_inside(given: dict[str, Any], tmp_path: Path) -> None:
    job = train()
    base = job.Config(**given, steps=2, adapters=2, run_folder=str(tmp_path), save_every=0)
    for stage in ("sft", "reward", "ppo"):
        job.main(replace(base, stage=stage))
    rows = [json.loads(x) for x in (tmp_path / "ppo" / "metrics.jsonl").read_text().splitlines()]
    assert abs(rows[0]["kl"]) < 1e-4  # adapters begin at 0: policy and reference are one
    assert rows[1]["kl"] != rows[0]["kl"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stage": "dpo"}, "should be 'sft', 'reward' or 'ppo'"),
        ({"backend": "ddp"}, "should be 'single' or 'fsdp2'"),
        (
            {"batch_size": 15},
            "batch_size is 15; it must be a multiple of 2 devices times 1 minibatches",
        ),
        ({"adapters": 2, "backend": "fsdp2"}, "one device"),
    ],
)
def test_what_the_job_cannot_do_is_named(change: dict[str, Any], words: str) -> None:
    """As the script is started: words are judged by its Config's types, the rest by `check`."""
    job = train()
    with pytest.raises(ValueError, match=words):
        job.check(TypeAdapter(job.Config).validate_python(change), 2)
