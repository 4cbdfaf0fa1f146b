"""Formats, soft rewards, composition, asynchronous scoring, and the tasks of reasoning-gym."""

import asyncio
import math
import threading

import pytest

from nbkit.rewards import math_score
from nbkit.rewards.asynchronous import AsynchronousRewards
from nbkit.rewards.compose import WeightedRewards
from nbkit.rewards.formats import format_reward, graded_format_reward, thoughts_and_answer
from nbkit.rewards.reasoning_gym import TASKS, GymTask
from nbkit.rewards.soft import closeness, word_overlap
from nbkit.rewards.symbolic import VerifierError

GOOD = "<think>1 + 1</think><answer>2</answer>"


@pytest.mark.parametrize(
    ("text", "binary", "graded"),
    [
        (GOOD, 1.0, 1.0),
        ("\n<think>\na\n</think>\n\n<answer>\n2\n</answer>\n", 1.0, 1.0),
        ("<think></think><answer>2</answer>", 0.0, 1.0),
        ("<think>a</think><answer> </answer>", 0.0, 1.0),
        (GOOD + GOOD, 0.0, 0.0),
        (GOOD + " and more", 0.0, 1.0),
        ("so " + GOOD, 0.0, 1.0),
        ("<answer>2</answer><think>a</think>", 0.0, 0.5),
        ("<think>a</think><answer>1</answer><answer>2</answer>", 0.0, 0.5),
        ("<think>a</think><answer>2", 0.0, 0.75),
        ("<answer>2</answer>", 0.0, 0.5),
        ("<think>a<think>b</think></think><answer>2</answer>", 0.0, 0.5),
        ("<THINK>a</THINK><answer>2</answer>", 0.0, 0.5),
        ("2", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_format(text, binary, graded):
    assert format_reward(text) == binary
    assert graded_format_reward(text) == graded
    assert (thoughts_and_answer(text) is not None) == (binary == 1.0)


def test_parts_of_the_form():
    assert thoughts_and_answer(GOOD) == ("1 + 1", "2")


def test_closeness():
    assert closeness("#### 10", "10") == 1.0
    assert closeness("#### 11", "10") == pytest.approx(0.5)
    assert closeness("#### 9", "10") == pytest.approx(0.5)
    assert closeness("#### 20", "10") == pytest.approx(1 / 11)
    assert closeness("#### -11", "-10") == pytest.approx(0.5)
    assert closeness("#### 0.1", "0") == pytest.approx(0.5)
    assert closeness("10", "10") == 0.0
    with pytest.raises(ValueError, match="gold"):
        closeness("#### 1", "x")
    with pytest.raises(ValueError, match="half"):
        closeness("#### 1", "1", half=0)


def test_word_overlap():
    assert word_overlap("The cat sat", "the cat sat") == 1.0
    assert word_overlap("the cat", "the dog") == 0.5
    assert word_overlap("the the the the", "the cat") == pytest.approx(1 / 3)  # repeating pays less
    assert word_overlap("", "") == 1.0
    assert word_overlap("a", "") == 0.0


def test_weighted_sum_and_gate():
    parts = {
        "format": lambda text, gold: format_reward(text),
        "answer": lambda text, gold: math_score(text, gold, style="tags"),
    }
    both = WeightedRewards(parts, {"format": 0.2, "answer": 1.0})
    assert both(GOOD, "2").total == pytest.approx(1.2)
    assert both(GOOD, "3").total == pytest.approx(0.2)
    assert both("<answer>2</answer>", "2").total == pytest.approx(1.0)
    assert both("<answer>2</answer>", "2").parts == {"format": 0.0, "answer": 1.0}
    gated = WeightedRewards(parts, {"format": 0.2, "answer": 1.0}, gate="format")
    assert gated("<answer>2</answer>", "2").total == 0.0
    assert gated(GOOD, "2").total == pytest.approx(1.2)


def test_composition_refuses_what_does_not_fit():
    one = {"a": lambda: 1.0}
    for rewards, weights, gate in [
        (one, {"b": 1.0}, None),
        ({}, {}, None),
        (one, {"a": math.nan}, None),
        (one, {"a": 1.0}, "b"),
    ]:
        with pytest.raises(ValueError, match=r"weights|gate"):
            WeightedRewards(rewards, weights, gate=gate)
    with pytest.raises(ValueError, match="'a' gave nan"):
        WeightedRewards({"a": lambda: math.nan}, {"a": 1.0})()

    def fault() -> float:
        raise VerifierError("broken")

    with pytest.raises(VerifierError):
        WeightedRewards({"a": fault}, {"a": 1.0})()


def test_scoring_overlaps_generation():
    """A batch is scored only while the next one is generated: in turn it would wait in vain."""
    begun = [threading.Event() for _ in range(6)]

    def score(text: str) -> float:
        assert begun[len(text) + 1].wait(100)
        return float(len(text))

    def generate(batch: int) -> list[str]:
        begun[batch].set()
        return ["x" * batch] * 2

    with AsynchronousRewards(score, workers=2) as scorer:
        waiting = [scorer.submit(generate(batch)[:1]) for batch in range(5)]
        generate(5)
        beside = [pending.result().rewards for pending in waiting]
    assert beside == [[float(batch)] for batch in range(5)]


def test_submit_returns_at_once_and_the_order_is_kept():
    release = threading.Event()

    def score(value: int, other: int) -> float:
        assert release.wait(30)
        return float(value * other)

    with AsynchronousRewards(score, workers=3) as scorer:
        pending = scorer.submit([1, 2, 3, 4], [1, 10, 100, 1000])
        assert not pending.done()
        with pytest.raises(TimeoutError, match="4 of 4"):
            pending.result(0.01)
        release.set()
        assert pending.result(30).rewards == [1.0, 20.0, 300.0, 4000.0]
        assert (scorer.scored, scorer.errors) == (4, 0)
        with pytest.raises(ValueError, match="one length"):
            scorer.submit([1], [1, 2])


def test_failed_verifier_is_invalid_and_never_zero():
    def score(text: str) -> float:
        if text == "bad":
            raise VerifierError("broken")
        return 1.0

    with AsynchronousRewards(score) as scorer:
        scores = scorer.submit(["a", "bad", "b"]).result()
        assert scores.valid == [True, False, True]
        assert math.isnan(scores.rewards[1])
        assert scores.rewards[::2] == [1.0, 1.0]
        assert isinstance(scores.errors[1], VerifierError)
        assert scorer.errors == 1
    with AsynchronousRewards(score, on_error="raise") as scorer, pytest.raises(VerifierError):
        scorer.submit(["bad"]).result()


def test_event_loop_goes_on_while_it_waits():
    """A score waits until the loop has turned three times more."""
    turned = threading.Event()

    def score(value: float) -> float:
        assert turned.wait(100)
        return value

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(0.01)
        turned.set()

    async def main() -> list[float]:
        with AsynchronousRewards(score) as scorer:
            pending = scorer.submit([1.0, 2.0])
            task = asyncio.create_task(tick())
            scores = await pending
        await task
        return scores.rewards

    assert asyncio.run(main()) == [1.0, 2.0]


@pytest.mark.parametrize("name", TASKS)
def test_reasoning_gym_task(name):
    task = GymTask(name, size=8, seed=5)
    again = GymTask(name, size=8, seed=5)
    other = GymTask(name, size=8, seed=6)
    assert [q.prompt for q in task.questions] == [q.prompt for q in again.questions]
    assert [q.prompt for q in task.questions] != [q.prompt for q in other.questions]
    graded = GymTask(name, size=8, seed=5, binary=False)
    for index, question in enumerate(task.questions):
        assert question.prompt.strip()
        right = f"<think>so</think><answer>{question.answer}</answer>"
        assert task.score(index, right) == graded.score(index, right) == 1.0
        for wrong in ("", str(question.answer), "<answer></answer>", "<answer>zzz</answer>"):
            assert task.score(index, wrong) == graded.score(index, wrong) == 0.0
        neighbour = task.questions[index - 1].answer
        if neighbour != question.answer:
            assert task.score(index, f"<answer>{neighbour}</answer>") == 0.0


def test_twenty_different_tasks():
    assert len(set(TASKS)) == len(TASKS) == 20


def test_what_a_task_pays_for_nonsense_is_taken_away():
    task = GymTask("rubiks_cube", size=2, seed=1, binary=False, style="whole")
    assert task.questions[0].answer is None  # a task without a stated answer
    assert task._data.score_answer("zzz", task.questions[0].entry) == 0.01
    assert task.score(0, "zzz") == 0.0


def test_error_of_a_task_is_raised():
    task = GymTask("prime_factorization", size=1, seed=1)
    with pytest.raises(VerifierError, match="prime_factorization"):
        task.score(0, "<answer>zzz</answer>")


@pytest.mark.parametrize("name", ["countdown", "simple_integration", "polynomial_multiplication"])
def test_task_that_runs_answers_as_python_is_refused(name):
    with pytest.raises(ValueError, match="as Python"):
        GymTask(name, size=1, seed=1)
    GymTask(name, size=1, seed=1, allow_evaluation=True)


def test_unknown_task():
    with pytest.raises(ValueError, match="no task"):
        GymTask("nothing", size=1, seed=1)
