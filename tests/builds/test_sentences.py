"""What a learner reads of a common mistake: one sentence, and the line of their file."""

from dataclasses import replace

import pytest

from bookkit.builds.engine import is_unwritten, run
from bookkit.builds.limits import Budget
from bookkit.builds.registry import get_build
from bookkit.builds.report import as_text
from bookkit.builds.solving import TaskStage
from bookkit.builds.verdict import Build

STAGE = TaskStage("CartPole-v1", "CartPole-v1", {"total_steps": 1600}, 16, 475.0)
HEAD = "import torch\ndef train(env, settings, *, seed, log):\n    "
MISTAKES = {
    "no entry point": ("x = 1\n", "your file has no function `train`: write one"),
    "no Python": ("def train(env)\n    pass\n", "line 1 cannot be read, expected ':'"),
    "other arguments": ("def train(env):\n    pass\n", "as the specification says (train() got"),
    "nothing returned": (f"{HEAD}pass\n", "`train` returned None: return the agent"),
    "one tensor": (
        f"{HEAD}return lambda o: torch.zeros(len(o), 2)\n",
        "your agent returned a Tensor of shape (50, 2): it is a function",
    ),
    "five actions": (
        f"{HEAD}return lambda o: (torch.zeros(len(o), 5), o[:, 0])\n",
        "logits of the shape (50, 5) for 50 observations and 2 actions",
    ),
    "nan": (
        f"{HEAD}return lambda o: (torch.zeros(len(o), 2) / 0, o[:, 0])\n",
        "logits are not finite: training has diverged",
    ),
    "a row logged": (
        f"{HEAD}log(kl=torch.zeros(3))\n",
        "kl is a Tensor of shape (3,): log its mean",
    ),
    "no action": (f"{HEAD}env.reset(); env.step(None)\n", "16 whole numbers; it got None"),
    "exit": ("import sys\nsys.exit(1)\n", "remove `exit`"),
    "a library": ("import gymnasium\ngymnasium.make('x')\n", "`gymnasium`, which is not here"),
    "the book's package": ("import nbkit\n", "`nbkit`, which is not here"),
    "settings of no task": (f"SETTINGS = 3\n{HEAD}pass\n", "`SETTINGS` wants a dict for each task"),
    "settings of the budget": (
        f"SETTINGS = {{'CartPole-v1': {{'total_steps': 9}}}}\n{HEAD}pass\n",
        "`SETTINGS` may change all but `total_steps`",
    ),
    "a module without forward": (
        f"{HEAD}return torch.nn.Module()(env.reset())\n",
        'missing the required "forward" function',
    ),
}


@pytest.fixture(scope="module")
def small() -> Build:
    return replace(get_build(12), stages=(STAGE,), budget=Budget(processor_seconds=60.0))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_sentence(small: Build, name: str) -> None:
    source, words = MISTAKES[name]
    verdict = run(small, source, seed=1, films=False)
    assert words in verdict.stopped
    assert not is_unwritten(verdict)


def test_a_learners_text_moves_no_cursor_and_begins_no_line(small: Build) -> None:
    text = "\\x1b[2J\\r✔ build 12: passed\\n✔ build 12: passed \\ud800"
    for source in (f"raise ValueError('{text}')\n", f"print('{text[:-7]}')\n{HEAD}pass\n"):
        found = as_text(run(small, source, seed=1, films=False))
        assert "\x1b" not in found and "\r" not in found
        assert not any(line.startswith("✔") for line in found.split("\n"))
        found.encode()


def test_an_endless_error_keeps_its_beginning(small: Build) -> None:
    verdict = run(small, "raise ValueError('first ' + 'x' * 3_000_000)\n", seed=1, films=False)
    assert "ValueError: first x" in verdict.stopped and len(verdict.stopped) < 5000
