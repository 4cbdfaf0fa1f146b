"""A run that was killed and resumed equals one that was not, to the bit."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nbkit.control.actor_critic import make_actor_critic
from nbkit.control.env_state import UnsavableEnvironment
from nbkit.control.environments import VectorEnvAdapter, make_control_env
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.ppo import PPOConfig, PPOTrainer
from tests.control import killed_run
from tests.control.hand_made import CountingVectorEnv

HERE = Path(__file__).parent
CONFIG = PPOConfig(
    total_steps=3000, steps=16, epochs=2, normalise_observations=True, normalise_rewards=True
)


def trainer(env_id: str, backend: str, config: PPOConfig = CONFIG) -> PPOTrainer:
    env = make_control_env(env_id, 4, backend=backend)
    return PPOTrainer(env, make_actor_critic(env, seed=0, width=16), config, seed=0)


def everything(run: PPOTrainer) -> bytes:
    state = run.state_dict()
    tensors = [*state["policy"].values(), state["generator"], state["observations"]]
    for group in state["optimiser"]["state"].values():
        tensors += [group["exp_avg"], group["exp_avg_sq"], group["step"]]
    numbers = repr((state["episodes"], state["history"], state["normaliser"]))
    return b"".join(x.numpy().tobytes() for x in tensors) + numbers.encode()


@pytest.mark.parametrize(
    ("env_id", "backend"),
    [
        ("CartPole-v1", "native"),
        ("CartPole-v1", "loop"),
        ("CartPole-v1", "sync"),
        ("Pendulum-v1", "native"),
        ("Pendulum-v1", "loop"),
        ("MountainCar-v0", "native"),
        ("MountainCar-v0", "loop"),
        ("Acrobot-v1", "loop"),
        ("MountainCarContinuous-v0", "sync"),
    ],
)
def test_resuming_is_exact_in_every_form(env_id: str, backend: str, tmp_path: Path) -> None:
    unbroken, resumed = trainer(env_id, backend), trainer(env_id, backend)
    for _ in range(13):
        unbroken.step()
    save(tmp_path / "run.pt", unbroken)
    resumed.step()  # what it did before it is resumed must not matter
    resume(tmp_path / "run.pt", resumed)
    for _ in range(6):
        unbroken.step()
        resumed.step()
    assert everything(unbroken) == everything(resumed)
    assert len(unbroken.episodes.finished) > 0 or env_id != "CartPole-v1"


@pytest.mark.slow
def test_a_run_killed_at_a_random_moment_ends_like_one_that_was_not(tmp_path: Path) -> None:
    env_id = "CartPole-v1"
    command = [sys.executable, str(HERE / "killed_run.py")]
    updates = "60"
    whole = tmp_path / "whole.pt"
    killed_run.main(whole, env_id, int(updates))
    killed = tmp_path / "killed.pt"
    kills = 0
    for attempt in range(2):
        process = subprocess.Popen(
            [*command, str(killed), env_id, updates], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # it is under way
        time.sleep(random.Random(time.time_ns() + attempt).uniform(0.0, 0.3))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
    assert kills >= 1, "each run ended before it was killed"
    killed_run.main(killed, env_id, int(updates))
    states = [torch.load(path, weights_only=True) for path in (whole, killed)]
    assert len(states[0]["trainer"]["history"]) == 60
    assert _same(states[0], states[1])


def _same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b or (a != a and b != b)


def test_the_comparison_of_the_kill_test_sees_one_bit() -> None:
    x = torch.tensor([1.0])
    assert not _same({"a": [x]}, {"a": [x.nextafter(torch.tensor([2.0]))]})


def test_an_interrupted_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch) -> None:
    run = trainer("CartPole-v1", "native")
    path = tmp_path / "run.pt"
    run.step()
    save(path, run)
    before = path.read_bytes()

    def half(state, file):
        file.write(b"half a checkpoint")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", half)
    run.step()
    with pytest.raises(KeyboardInterrupt):
        save(path, run)
    assert path.read_bytes() == before


def test_train_continues_from_its_checkpoint(tmp_path: Path) -> None:
    config = PPOConfig(total_steps=2000, epochs=1)

    def start(budget: int | None = None):
        env = make_control_env("CartPole-v1", 4)
        policy = make_actor_critic(env, seed=0)
        stop = None if budget is None else (lambda t, m: stop_at(t, budget))
        return PPOTrainer(env, policy, config, seed=0).run(
            progress=False, checkpoint=tmp_path / "run.pt", hook=stop
        )

    def stop_at(run, budget):
        if len(run.history) == budget:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(12)
    resumed = start()
    (tmp_path / "run.pt").unlink()
    assert str(resumed) == str(start())


def test_box2d_says_that_its_state_cannot_be_written_down(tmp_path: Path) -> None:
    run = trainer("LunarLander-v3", "loop")
    run.step()
    with pytest.raises(UnsavableEnvironment, match=r"LunarLander-v3.*environment='restart'"):
        save(tmp_path / "run.pt", run)
    save(tmp_path / "run.pt", run, environment="restart")
    again = trainer("LunarLander-v3", "loop")
    resume(tmp_path / "run.pt", again)
    assert str(again.history) == str(run.history)
    assert float(again.episodes.open_returns.abs().sum()) == 0.0
    assert again.step()["ratio_error"] < 1e-4


def test_hand_made_environments_and_unknown_wrappers(tmp_path: Path) -> None:
    env = VectorEnvAdapter(CountingVectorEnv([2, 3]))
    env.reset(0)
    with pytest.raises(UnsavableEnvironment, match="get_state and set_state"):
        env.get_state()
    from gymnasium.wrappers import RescaleAction

    wrapped = make_control_env(
        "Pendulum-v1", 1, wrapper=lambda env: RescaleAction(env, min_action=-1, max_action=1)
    )
    wrapped.reset(0)
    with pytest.raises(UnsavableEnvironment, match="RescaleAction"):
        wrapped.get_state()


def test_other_configurations_and_files_are_refused(tmp_path: Path) -> None:
    run = trainer("CartPole-v1", "native")
    save(tmp_path / "run.pt", run)
    other = trainer("CartPole-v1", "native", replace(CONFIG, gamma=0.5, lam=0.1))
    with pytest.raises(ValueError, match="gamma, lam"):
        resume(tmp_path / "run.pt", other)
    torch.save({"weights": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="no checkpoint"):
        resume(tmp_path / "other.pt", run)
