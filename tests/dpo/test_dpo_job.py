"""The job dpo_7b end to end: UltraFeedback's format, a saved model, a stop, a resumption, ranks."""

import importlib.util
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import EncodedPair
from nbkit.data.preferences import Message
from nbkit.envs.helpful import draw_questions, gold, grammar_sampler
from nbkit.recipes.dpo_recipe import VOCABULARY
from nbkit.runs.run import Run
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.dpo.batch import pair_batch
from tests.cluster.train_scripts import run_main_with
from tests.parallel import jobs

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "cluster_scripts" / "dpo_7b" / "train.py"
pytestmark = [pytest.mark.slow, pytest.mark.chapter(22)]


@pytest.fixture(scope="module")
def job():
    spec = importlib.util.spec_from_file_location("dpo_7b_train", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model with its tokenizer, and 40 rows of UltraFeedback, three of them broken."""
    path = tmp_path_factory.mktemp("zephyr")
    tiny_model(VOCABULARY, width=32, layers=2, heads=4).save_pretrained(path / "sft")
    VOCABULARY.tokenizer().save_pretrained(path / "sft")
    source, rows = random.Random(3), []
    for number, question in enumerate(draw_questions(37, seed=3)):
        answers = grammar_sampler([question] * 4, number)
        rated = [
            {"response": answer, "overall_score": gold(question, answer)} for answer in answers
        ]
        source.shuffle(rated)
        rows.append({"instruction": question.text, "completions": rated})
    rows.insert(5, {"instruction": "how do i make tea ?"})
    rows.insert(11, {**rows[0], "completions": rows[0]["completions"][:1]})
    rows.insert(20, {**rows[0], "completions": [{"response": "enjoy ."}, {"response": "sure ."}]})
    text = "\n".join(json.dumps(row) for row in rows)
    (path / "train.jsonl").write_text(text + "\n", encoding="utf-8")
    return path


@pytest.fixture
def config(job, folder):
    return job.Config(
        model=str(folder / "sft"), data=str(folder / "train.jsonl"), steps=6, save_every=2,
        micro_batch=4, accumulation=2, learning_rate=3e-3,
    )  # fmt: skip


def weights(path):
    return AutoModelForCausalLM.from_pretrained(path).state_dict()


def test_best_against_a_random_other_from_a_saved_model(job, folder, config, tmp_path, capfd):
    result = job.main(replace(config, steps=30, warmup=3, run_folder=str(tmp_path / "run")))
    assert result["loss"] < 0.65 and result["accuracy"] > 0.6
    printed = capfd.readouterr().out
    for reason, count in (("missing field", 2), ("too few completions", 1)):
        assert any(reason in line and str(count) in line for line in printed.splitlines())
    tuned, sft = weights(tmp_path / "run" / "output"), weights(folder / "sft")
    assert tuned.keys() == sft.keys()
    assert any(not torch.equal(tuned[name], sft[name]) for name in sft)
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(0.693147, abs=1e-5)


def test_a_stopped_job_goes_on_to_the_same_weights(job, config, tmp_path, monkeypatch):
    whole = job.main(replace(config, run_folder=str(tmp_path / "whole")))

    class KilledError(Exception):
        pass

    log = Run.log

    def dies(run, step, metrics):
        log(run, step, metrics)
        if step == 5:
            raise KilledError

    parts = replace(config, run_folder=str(tmp_path / "parts"))
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(Run, "log", dies)
        job.main(parts)
    torch.manual_seed(99)
    assert job.main(parts) == whole
    ours, theirs = (weights(tmp_path / name / "output") for name in ("whole", "parts"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_two_processes_take_the_same_step_as_one(job, config, tmp_path):
    one = job.main(replace(config, run_folder=str(tmp_path / "one")))
    many = replace(config, backend="fsdp2", accumulation=1, run_folder=str(tmp_path / "two"))
    jobs.ranks(2, run_main_with, "dpo_7b", many.__dict__)
    two = json.loads((tmp_path / "two" / "result.json").read_text())
    assert {name: two[name] for name in one} == pytest.approx(one, abs=1e-3)
    ours, theirs = (weights(tmp_path / name / "output") for name in ("one", "two"))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], atol=2e-3, rtol=0)


def test_its_rows_are_named_as_ever_and_its_rate_falls_to_zero(job, config, tmp_path):
    job.main(replace(config, warmup=2, run_folder=str(tmp_path / "run")))
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    names = {"loss", "gradient_norm", "margin", "accuracy", "logp_chosen", "seconds/update"}
    assert all(names <= row.keys() for row in rows)
    rates = [row["learning_rate"] / config.learning_rate for row in rows]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])
    assert [row["pairs"] for row in rows] == [4.0 * step for step in range(1, 7)]


def test_an_unknown_backend_is_named(job, config):
    with pytest.raises(ValueError, match="backend"):
        job.main(replace(config, backend="zero9"))


def test_d15_one_bos_and_the_prompt_is_a_prefix_of_what_is_trained_on():
    """FAULTS D15: template and tokenizer both write a BOS; the batch must hold one."""
    tokenizer = VOCABULARY.tokenizer()
    question = draw_questions(1, seed=2)[0]
    rendered = tokenizer.apply_chat_template(
        question.messages, tokenize=False, add_generation_prompt=True
    )
    naive = tokenizer(rendered)["input_ids"]
    assert naive[:2] == [VOCABULARY.bos_id] * 2  # the fault is possible here
    encoder, chat = ChatEncoder(tokenizer), [Message("user", question.text)]
    prompt = encoder.prompt_ids(chat)
    answer = encoder.answer_ids(chat, "gladly , boil the water .")
    assert list(prompt) == naive[1:] and prompt.count(VOCABULARY.bos_id) == 1
    batch = pair_batch([EncodedPair(prompt, answer, answer[1:])], VOCABULARY.pad_id)
    assert batch.ids[0, : len(prompt)].tolist() == list(prompt)
    assert (batch.ids == VOCABULARY.bos_id).sum(1).tolist() == [1, 1]
    assert answer[-1] == VOCABULARY.eos_id and answer.count(VOCABULARY.eos_id) == 1
