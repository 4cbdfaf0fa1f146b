"""SimpleGRPO in small: its rewards, and its reference model in a process of its own."""

import pytest
import torch

from nbkit.envs.arithmetic import Sum
from nbkit.recipes.grpo_recipe import verifier
from nbkit.rewards import simple_grpo
from nbkit.trainers.grpo.update import completion_logprobs
from nbkit.trainers.reference_server import ReferenceServer, pack, unpack
from nbkit.trainers.scoring import Completion
from tests.rlvr.small import hand_made, model

pytestmark = pytest.mark.chapter(23, 24)


def form(answer, thought="t"):
    return f"<think>{thought}</think><answer>{answer}</answer>"


@pytest.mark.parametrize(
    ("completion", "gold", "pair"),
    [
        (form("7"), "7", (1.25, 1)),
        (form("1,234"), "so 1234\n#### 1234", (1.25, 1)),
        (form("-7"), "-7", (1.25, 1)),
        (form("7"), "-7", (1.25, -1)),
        (form("234"), "1,234", (1.25, -1)),
        (form("0.333"), "1/3", (1.25, -1)),
        (form("8") + " 7", "7", (-1, -1)),
        (form("49-18+2-30"), "3", (1.25, -1)),  # the question is no answer
        (form("10 - 3"), "So 7.\n#### 7", (1.25, -1)),
        (form(r"2\cdot 3+1"), "7", (1.25, -1)),
        (form("14/2"), "7", (1.25, -1)),
        (form("8") + form("7"), "7", (-1, -1)),
        (form("", ""), "7", (-1, -1)),
        ("<answer>7</answer>", "7", (-1, 1)),
        ("7", "7", (-1, -1)),
        ("<answer>7", "7", (-1, -1)),
    ],
)
def test_rewards(completion, gold, pair):
    assert simple_grpo.form_reward(completion) == pair[0]
    assert simple_grpo.correctness_reward(completion, gold) == pair[1]
    both = simple_grpo.reward(completion, gold)
    assert both.total == sum(pair)
    assert both.parts == {"correct": float(pair[1] > 0), "format": float(pair[0] > 0)}


@pytest.mark.parametrize(
    "answer",
    ["58+77+55", "58 + 77 + 55", "190+0", "190-0", "190*1", "380/2", "(190)+0", "190.5-.5"],
)
def test_job_and_recipe_agree_that_a_copied_sum_is_wrong(answer):
    problem = Sum((58, 77, 55))
    made = Completion(form(answer), 30, False)
    assert verifier([problem], [made])[0].total == 0.0
    assert simple_grpo.correctness_reward(made.text, str(problem.answer)) == -1
    right = Completion(form("190"), 30, False)
    assert verifier([problem], [right])[0].total == 1.0
    assert simple_grpo.correctness_reward(right.text, str(problem.answer)) == 1


def test_a_gold_without_an_answer_is_an_error():
    with pytest.raises(ValueError, match="gold"):
        simple_grpo.correctness_reward(form("7"), "")
    with pytest.raises(ValueError, match="gold is no number"):
        simple_grpo.correctness_reward(form("7"), "x+1")


def test_only_tensors_are_read():
    assert unpack(pack({"ids": torch.arange(3)}))["ids"].tolist() == [0, 1, 2]
    with pytest.raises(Exception, match=r"(?i)weights|pickle|invalid|unpick"):
        unpack(b"cos\nsystem\n(S'true'\ntR.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference")
    model(width=32, layers=2).save_pretrained(path)
    return path


@pytest.mark.slow
def test_server_scores_as_the_model_does_and_keeps_the_order(folder):
    batch = hand_made()
    here = completion_logprobs(model(width=32, layers=2), batch, 0.8).detach()
    with ReferenceServer(folder, temperature=0.8) as server:
        for number in range(3):
            part = {"ids": batch.ids, "attention": batch.attention, "number": torch.tensor(number)}
            assert server.upload(part)
        replies = [server.get() for _ in range(3)]
        with pytest.raises(TimeoutError, match="no batch"):
            server.get(timeout_s=0.1)
        with pytest.raises(RuntimeError, match="attention"):
            server.upload({"ids": batch.ids})
        with pytest.raises(RuntimeError, match="failed"):
            wrong = torch.full_like(batch.ids, 10_000)
            server.upload({"ids": wrong, "attention": batch.attention})
            server.get()
        assert server.upload({"ids": batch.ids, "attention": batch.attention})
        assert server.get()["ref_logprobs"].isfinite().all()
    assert [int(reply["number"]) for reply in replies] == [0, 1, 2]
    width = batch.mask.shape[1]
    there = replies[0]["ref_logprobs"][:, -width:]
    torch.testing.assert_close(there * batch.mask, here * batch.mask, atol=1e-5, rtol=1e-5)
    assert server.process.poll() == 0


@pytest.mark.slow
def test_a_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(RuntimeError, match="does not start"):
        ReferenceServer(tmp_path)
