"""The job grpo_gsm8k at a tiny size: both stages, resuming, GSM8K's files."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter

from nbkit.data.gsm8k import write_gsm8k
from nbkit.envs.word_problems import draw_stories

pytestmark = [pytest.mark.slow, pytest.mark.chapter(24)]
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


@pytest.fixture(scope="module")
def instruct(tmp_path_factory):
    """A small Qwen2 as `from_pretrained` reads it: bytes as tokens, a template, two ends."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    words = [*sorted(ByteLevel.alphabet()), "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token="<|im_end|>", pad_token="<|endoftext|>",
        unk_token="<|endoftext|>", additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    tokenizer.chat_template = (
        "{% for m in messages %}"
        "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    shape = Qwen2Config(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=64, max_position_embeddings=1024,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=vocabulary["<|im_end|>"],
    )  # fmt: skip
    torch.manual_seed(3)
    model = Qwen2ForCausalLM(shape)
    model.generation_config = GenerationConfig(
        eos_token_id=[vocabulary["<|im_end|>"], vocabulary["<|endoftext|>"]],
        pad_token_id=vocabulary["<|endoftext|>"],
    )
    folder = tmp_path_factory.mktemp("instruct")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_downloaded_model_stops_at_each_of_its_ends(instruct):
    _, vocabulary = job.starting_point(replace(SMALL, stage="grpo", model=str(instruct)), None)
    tokenizer = vocabulary.tokenizer
    turn, text = (
        tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("im_end", "endoftext")
    )
    assert set(vocabulary.eos_id) == {turn, text} and vocabulary.pad_id == text
    answer = tokenizer.encode("<think>1</think><answer>7</answer>", add_special_tokens=False)
    for end in (turn, text):
        assert vocabulary.decode([*answer, end, *answer]) == "<think>1</think><answer>7</answer>"
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert vocabulary.decode([start, *answer]) == "<think>1</think><answer>7</answer>"
    chat = tokenizer.decode(vocabulary.encode("6 times 7?"))
    assert chat.startswith("<|im_start|>system\nYou solve") and chat.count("<|im_start|>") == 3
    assert chat.endswith("6 times 7?<|im_end|>\n<|im_start|>assistant\n")
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="names no end"):
        job.ChatVocabulary(tokenizer, type("Settings", (), {"eos_token_id": None}))


def test_a_downloaded_model_learns_in_bfloat16_with_checkpoints(instruct, tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    data = tmp_path / "data"
    data.mkdir()
    for side, seed in (("train", 1), ("test", 2)):
        write_gsm8k(data / f"{side}.jsonl", [s.row for s in draw_stories(6, seed=seed)])
    settings = replace(
        SMALL, stage="grpo", model=str(instruct), data=str(data), run_folder=str(tmp_path / "run"),
        precision="bfloat16", checkpointing="full", learning_rate=1e-3, micro_tokens=1200,
        max_new_tokens=200,
    )  # fmt: skip
    paid = []

    def half(problems, completions):  # a random model is never right: pay every second answer
        paid.extend(completions)
        return [float(i % 2) for i in range(len(completions))]

    monkeypatch.setattr(job, "reward_fn", half)
    result = job.main(settings)
    assert len(paid) == 2 * 4 and not any("<|" in made.text for made in paid)
    assert result["curve"]["step"] == [2] and result["completions_per_step"] == 4
    output = tmp_path / "run" / "grpo" / "output"
    learned = AutoModelForCausalLM.from_pretrained(output)
    assert learned.dtype == torch.float32
    assert AutoTokenizer.from_pretrained(output).eos_token == "<|im_end|>"
    start = AutoModelForCausalLM.from_pretrained(instruct)
    moved = [
        (a - b).abs().max().item()
        for a, b in zip(learned.parameters(), start.parameters(), strict=True)
    ]
    assert 0 < max(moved) < 0.1
    with pytest.raises(ValueError, match="finished"):
        job.main(settings)


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match=r"backend[\s\S]*'zero3'"):
        TypeAdapter(job.Config).validate_python({"backend": "zero4"})
    with pytest.raises(ValueError, match="from scratch"):
        job.main(replace(SMALL, model="some/model"))
