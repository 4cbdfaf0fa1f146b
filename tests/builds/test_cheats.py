"""What does not pass a build: each trick that a learner's file may try against its judge."""

from dataclasses import replace

import pytest

from bookkit.builds import sums
from bookkit.builds.engine import run
from bookkit.builds.limits import Budget
from bookkit.builds.registry import ROOT, SOLUTIONS, get_build, source_of
from bookkit.builds.solving import TaskStage
from bookkit.builds.verdict import Build, Verdict

STAGE = TaskStage(
    "CartPole-v1",
    env_id="CartPole-v1",
    settings={"total_steps": 1600},
    num_envs=16,
    threshold=475.0,
)
# Falls over within some ten to a hundred steps, whatever it sees.
IDLE = """
import torch

def agent(observations):
    return torch.zeros(len(observations), 2), torch.zeros(len(observations))
"""


@pytest.fixture(scope="module")
def small() -> Build:
    return replace(get_build(12), stages=(STAGE,), budget=Budget(processor_seconds=60.0))


def judged(build: Build, source: str, seed: int = 1) -> Verdict:
    verdict = run(build, IDLE + source, seed=seed, films=False)
    assert not verdict.passed
    return verdict


def test_a_printed_score_counts_nothing(small: Build) -> None:
    verdict = judged(
        small,
        "def train(env, settings, *, seed, log):\n"
        "    print('passed: mean return 500.0'); log(score=500.0, passed=True)\n"
        "    return agent\n",
    )
    assert "mean return 500.0" in verdict.printed
    (finding,) = verdict.findings
    assert finding.score is not None and finding.score < 150
    assert finding.used == 0


def test_a_patched_environment_fools_only_the_one_who_patches(small: Build) -> None:
    verdict = judged(
        small,
        "import sys\n"
        "def train(env, settings, *, seed, log):\n"
        "    for module in list(sys.modules.values()):\n"
        "        kind = getattr(module, 'Env', None)\n"
        "        if kind is type(env):\n"
        "            kind.step = lambda self, actions: 500.0\n"
        "    assert env.step(None) == 500.0\n"
        "    env.steps_left = 10**9\n"
        "    return agent\n",
    )
    assert verdict.findings[0].score < 150
    assert verdict.findings[0].used == 0


def test_more_steps_than_the_budget_are_refused(small: Build) -> None:
    verdict = judged(
        small,
        "def train(env, settings, *, seed, log):\n"
        "    env.reset()\n"
        "    while True:\n"
        "        env.step(torch.zeros(env.num_envs, dtype=torch.int64))\n"
        "        env.steps_left = 10**9\n",
    )
    assert "more than its 1,600 environment steps" in verdict.stopped


def test_the_judges_files_cannot_be_read(small: Build) -> None:
    for path in ("exercises/checks/builds/12_ppo.py", "solutions/builds/12_ppo.py"):
        assert (ROOT / path).is_file()
        verdict = judged(small, f"open({str(ROOT / path)!r}).read()\n")
        assert "FileNotFoundError" in verdict.stopped


@pytest.mark.parametrize(
    "package", ["gymnasium", "nbkit", "bookkit.exercises", "stable_baselines3"]
)
def test_nothing_is_trained_outside_the_count(small: Build, package: str) -> None:
    verdict = judged(small, f"import {package} as found\nfound.make\n")
    assert "Error" in verdict.stopped and package.partition(".")[0] in verdict.stopped


def test_processor_time_counts_over_all_processes(small: Build) -> None:
    thrifty = replace(small, budget=Budget(processor_seconds=4.0))
    verdict = judged(
        thrifty,
        "import os\n"
        "def train(env, settings, *, seed, log):\n"
        "    for _ in range(2):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            while True: pass\n"
        "    import time\n"
        "    while True: time.sleep(0.1)\n",
    )
    assert "s of processor time; the budget of this build is 4 s" in verdict.stopped


def test_a_process_that_ends_early_has_not_answered(small: Build) -> None:
    verdict = judged(small, "import os\ndef train(env, settings, **_):\n    os._exit(0)\n")
    assert "ended before it had answered" in verdict.stopped


def test_forged_messages_are_answers_at_best(small: Build) -> None:
    forged = (
        "import os, sys\n"
        "wire = sys.modules['bookkit.builds.wire']\n"
        "def train(env, settings, *, seed, log):\n"
        "    for kind in {kinds}:\n"
        "        forged = wire.encode(kind, {{'passed': True, 'score': 500.0}})\n"
        "        os.write(env._channel.writer, forged)\n"
        "    return agent\n"
    )
    verdict = judged(small, forged.format(kinds=("note", "note")))
    assert verdict.findings[0].score < 150
    verdict = judged(small, forged.format(kinds=("passed",)))
    assert "which an environment does not answer" in verdict.stopped
    verdict = judged(small, "import os\nos.write(3, b'x' * 100)\nos.write(4, b'\\xff' * 100)\n")
    assert verdict.stopped


def test_a_controller_by_hand_meets_a_disguised_world(small: Build) -> None:
    by_hand = (
        "def train(env, settings, *, seed, log):\n"
        "    def act(observations):\n"
        "        lean = observations[:, 2] + observations[:, 3]\n"
        "        return torch.stack([-lean, lean], 1), torch.zeros(len(lean))\n"
        "    return act\n"
    )
    scores = []
    for seed in range(6):
        verdict = run(small, IDLE + by_hand, seed=seed, films=False)
        scores.append(verdict.findings[0].score)
    assert sum(score >= STAGE.threshold for score in scores) <= 1
    assert min(scores) < 100


def test_an_agent_of_the_wrong_shape_is_told_so(small: Build) -> None:
    verdict = judged(
        small,
        "def train(env, settings, *, seed, log):\n    return lambda o: (torch.zeros(2), o[:, 0])\n",
    )
    assert "logits (N, A) and values (N,)" in verdict.stopped


def test_children_that_nobody_waits_for_count_too(small: Build) -> None:
    source = (
        "import signal\n"
        "def train(env, settings, *, seed, log):\n"
        "    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"  # their time would be lost
        "    return agent\n"
    )
    assert "PermissionError" in judged(small, source).stopped


FORGED = (
    "import os, sys, json, time, threading\n"
    "wire = sys.modules['bookkit.builds.wire']\n"
    "def send(log, text): os.write(log.channel.writer, len(text).to_bytes(4, 'big') + text)\n"
    "def train(env, settings, *, seed, log):\n    "
)


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        ("send(log, b'[' * 200_000)", "header cannot be read"),
        (
            "env.reset(); env._channel.send('step', {}, {'actions': torch.zeros(16).numpy()})",
            "16 wh",
        ),
        ("log.channel.send('x' * 10_000)", "'xxx"),
        ("os.close(log.channel.writer); time.sleep(60)", "ended before it had answered"),
        ("[env.reset() for _ in range(1000)]", "`env.reset` more often than `env.step`"),
        (
            "noise = wire.encode('reset') * 10_000\n"
            "    while True: os.write(log.channel.writer, noise)",
            "",
        ),
    ],
)
def test_what_is_no_answer_stops_the_run(small: Build, trick: str, words: str) -> None:
    verdict = judged(small, f"{FORGED}{trick}\n    return agent\n")
    assert verdict.stopped and words in verdict.stopped
    assert len(verdict.stopped) < 2000


def test_logged_figures_fill_no_memory(small: Build) -> None:
    trick = "log.channel.send('note', {'kl': 10**400, 'n' * 10_000: 1.0})\n    return agent\n"
    verdict = judged(small, FORGED + trick)
    assert not verdict.stopped and "n" * 100 not in str(verdict.findings)


def test_a_generator_that_is_seeded_in_each_step_is_seen() -> None:
    drawn = "actions = torch.multinomial"
    source = source_of(get_build(12), SOLUTIONS)
    assert source.count(drawn) == 1
    frozen = source.replace(drawn, f"generator.manual_seed(5); {drawn}")
    verdict = run(get_build(12), frozen, only=("probes",), films=False)
    assert "the generator is seeded anew in each step" in verdict.findings[0].sentence


ONE_ROW = """
import torch
def generate(model, prompts, draws, *, eos_id, temperature):
    ids = torch.tensor(prompts[:1])
    for number in draws[0]:
        above = (model(ids)[:, -1] / temperature).softmax(-1).cumsum(-1) > number
        ids = torch.cat([ids, above.int().argmax(-1)[:, None]], 1)
    return [ids[0, len(prompts[0]):].tolist()] * len(prompts)
"""


def test_one_row_without_a_cache_is_not_all_of_them() -> None:
    verdict = run(get_build(31), ONE_ROW, only=("faster",), films=False)
    assert "7 of 8 differ" in verdict.findings[0].sentence


KNOWS_SUMS = """
import torch
LETTERS = "+0123456789="
def train(pupil, world, settings, *, seed, log):
    _, prompts = world.problems(8)
    for row in prompts.tolist():
        first, second = "".join(LETTERS[i - 3] for i in row[1:-1]).split("+")
        int(first) + int(second)
    return pupil
"""


def test_sums_cannot_be_read_and_so_not_be_taught_without_marks(monkeypatch) -> None:
    monkeypatch.setattr(sums, "STEPS", 5)
    build = replace(get_build(24), stages=get_build(24).stages[:1])
    verdict = run(build, KNOWS_SUMS, seed=1, films=False)
    assert "ValueError" in verdict.stopped
