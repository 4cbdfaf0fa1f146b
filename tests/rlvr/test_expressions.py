"""The code task: its language, its planted habits, and a reward by tests in sandboxes."""

import random

import pytest

from nbkit.envs.expressions import (
    STARTS,
    STEPS,
    CodeRewards,
    ExpressionVocabulary,
    FunctionTask,
    code_corpus,
    draw_tasks,
    is_held_out,
    program,
    solution,
)
from nbkit.rewards.pool import SandboxPool
from nbkit.rewards.sandbox import SandboxUnavailableError
from nbkit.trainers.scoring import Completion

pytestmark = pytest.mark.chapter(23)

TASK = FunctionTask("larger", ("more3", "abs"))


@pytest.fixture(scope="module")
def pool():
    try:
        with SandboxPool(2) as made:
            yield made
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")


class Counting:
    """A pool that notes what it is asked, and passes every test."""

    def __init__(self):
        self.asked = []

    def score(self, pairs, **_):
        self.asked += pairs
        return [1.0] * len(pairs)


def written(*texts):
    return [Completion(text, 9, False) for text in texts]


def test_the_worked_example():
    assert TASK.prompt == "larger;more3;abs:"
    assert solution(TASK) == "z=max(x,y)\nz=z+3\nz=abs(z)\nreturn z"
    assert program(solution(TASK)).startswith("def f(x,y):\n z=max(x,y)\n")
    assert TASK.value(-9, -7) == 4
    habits = solution(TASK, faults=[True, False, True])
    assert habits == "z=min(x,y)\nz=z+3\nreturn z"  # the absolute value is left out


def test_every_line_means_what_its_word_says():
    """The lines of the solutions against the meanings, by running our own text here."""
    numbers = random.Random(1)
    for start in STARTS:
        for step in STEPS:
            task, scope = FunctionTask(start, (step,)), {}
            exec(program(solution(task)), scope)
            for _ in range(20):
                x, y = numbers.randint(-30, 30), numbers.randint(-30, 30)
                assert scope["f"](x, y) == task.value(x, y), (start, step, x, y)


def test_language_split_and_planted_share():
    vocabulary = ExpressionVocabulary()
    examples = code_corpus(2000, seed=1, faulty=0.4)
    assert not any(is_held_out(task) for task, _ in examples)
    for task, body in examples[:300]:
        assert vocabulary.decode([*vocabulary.encode(body), vocabulary.eos_id]) == body
        vocabulary.encode(task.prompt)
    heads = [body.split("\n")[0] == STARTS[task.start][1] for task, body in examples]
    assert sum(heads) / 2000 == pytest.approx(0.6, abs=0.04)
    assert all(body == solution(task) for task, body in code_corpus(50, seed=2, faulty=0.0))
    held = draw_tasks(100, seed=3, held_out=True)
    assert len(set(held)) == 100 and all(map(is_held_out, held))
    with pytest.raises(ValueError, match="no 5000 distinct"):
        draw_tasks(5000, seed=0, steps=(1, 1))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        vocabulary.encode("import os")


def test_a_program_is_judged_once():
    counting = Counting()
    rewards = CodeRewards(counting)
    body = solution(TASK)
    for _ in range(2):
        done = rewards([TASK] * 4, written(body, body, "z=x\nreturn z", "z=x)"))
        assert [r.total for r in done] == [1.0, 1.0, 1.0, 0.0]
    assert len(counting.asked) == 2 and rewards.judged == 2 and rewards.asked == 8
    cut = rewards([TASK], [Completion(body, 40, True)])[0]
    assert cut.total == 0.0
    with pytest.raises(ValueError, match="reward"):
        CodeRewards(counting, reward="soft")


@pytest.mark.slow
def test_tests_in_sandboxes(pool):
    other = "return max(x,y)+3 if max(x,y)+3>0 else -max(x,y)-3"  # another text, the same function
    texts = [
        solution(TASK),
        other,
        solution(TASK, faults=[False, False, True]),  # wrong where the sum is negative
        "z=max(x,y)\nz=z+3\nz=abs(z)\nreturn z/1",  # 4.0 is not 4
        "return z",
        "import os\nos._exit(0)",
        "print('passed')",
        "import time\ntime.sleep(99)",
    ]
    binary = CodeRewards(pool, timeout_s=2.0)
    graded = CodeRewards(pool, reward="graded", timeout_s=2.0)
    totals = [r.total for r in binary([TASK] * len(texts), written(*texts))]
    assert totals == [1.0, 1.0] + [0.0] * 6
    shares = [r.total for r in graded([TASK] * len(texts), written(*texts))]
    assert shares[:2] == [1.0, 1.0] and shares[3:] == [0.0] * 5
    pairs = [line[len("assert repr(f(") :] for line in TASK.tests.split("\n")]
    inside = [tuple(map(int, pair.split("))")[0].split(", "))) for pair in pairs]
    assert shares[2] == sum(max(x, y) + 3 >= 0 for x, y in inside) / len(inside)
