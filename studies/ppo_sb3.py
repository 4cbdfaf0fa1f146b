"""PPO beside Stable-Baselines3's, each with its own tuned settings: same task, same budget.

Protocol, fixed before the run: CartPole-v1 and Pendulum-v1 with 100,000 steps, LunarLander-v3 with
400,000, three seeds, each run to the end, the two in turn in one process on one thread.
Stable-Baselines3 uses the settings of rl-baselines3-zoo (for Pendulum with its state-dependent
exploration), nbkit those of ``studies._ppo_settings``. Compared: the returns of the episodes
as they finish, the last 100, and seconds, of the clock and of the processor.
"""

import time
from dataclasses import asdict
from functools import cache
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from studies import _ppo_head as ppo
from studies._arms import Arms, Key, Run
from studies._frame import Frame, figures, first_updates
from studies._ppo_settings import CARTPOLE, LUNAR_LANDER, PENDULUM, Task
from studies._zoo_settings import ZOO

SEEDS = (31, 32, 33)
TASKS: dict[str, tuple[Task, int]] = {  # task and budget in environment steps
    "CartPole-v1": (CARTPOLE, 100_000),
    "Pendulum-v1": (PENDULUM, 100_000),
    "LunarLander-v3": (LUNAR_LANDER, 400_000),
}
WINDOWS = 40  # the curves are means of the episodes that ended within a window


class Episodes(BaseCallback):
    """Note (steps, return) of every episode."""

    def __init__(self) -> None:
        super().__init__()
        self.finished: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.finished.append((self.num_timesteps, float(info["episode"]["r"])))
        return True


def theirs(env_id: str, seed: int, budget: int) -> list[tuple[int, float]]:
    settings = dict(ZOO[env_id])
    envs = make_vec_env(env_id, settings.pop("n_envs"), seed=seed)
    episodes = Episodes()
    PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings).learn(budget, callback=episodes)
    envs.close()
    return episodes.finished


def ours(env_id: str, seed: int, budget: int) -> list[tuple[int, float]]:
    trainer = TASKS[env_id][0].trainer(seed, total_steps=budget)
    trainer.run(progress=False)
    return [(steps, value) for steps, value, _ in trainer.episodes.finished]


def timed(run: Any, env_id: str, seed: int, budget: int) -> dict[str, Any]:
    window = TASKS[env_id][1] // WINDOWS
    wall, processor = time.perf_counter(), time.process_time()
    finished = run(env_id, seed, budget)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    bins: dict[int, list[float]] = {}
    for steps, value in finished:
        bins.setdefault(min(steps, budget - 1) // window, []).append(value)
    last = [value for _, value in finished[-100:]]
    return {
        "seed": seed,
        "seconds": wall,
        "processor_seconds": processor,
        "last_100": sum(last) / len(last),
        "steps": [(i + 1) * window for i in sorted(bins)],
        "return": [round(sum(bins[i]) / len(bins[i]), 2) for i in sorted(bins)],
    }


def head() -> dict[str, float]:
    """The first updates of both programs."""
    found: dict[str, float] = {}
    for env_id in ("CartPole-v1", "Pendulum-v1"):
        trainer = TASKS[env_id][0].trainer(SEEDS[0])
        found |= first_updates(trainer, 2, METRICS, f"{env_id}, nbkit")
    seen = Losses()
    settings = dict(ZOO["CartPole-v1"])
    envs = make_vec_env("CartPole-v1", settings.pop("n_envs"), seed=SEEDS[0])
    agent = PPO("MlpPolicy", envs, seed=SEEDS[0], device="cpu", **settings)
    agent.learn(3 * settings["n_steps"] * envs.num_envs, callback=seen)
    envs.close()
    return found | figures(seen.history, SB3_METRICS, "CartPole-v1, sb3")


class Losses(BaseCallback):
    """Note what Stable-Baselines3 logs of each update but the last, when it samples again."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[dict[str, float]] = []

    def _on_rollout_start(self) -> None:
        logged = self.model.logger.name_to_value
        if "train/loss" in logged:
            self.history.append({key: float(logged[f"train/{key}"]) for key in SB3_METRICS})

    def _on_step(self) -> bool:
        return True


PROGRAMS = {"nbkit": ours, "sb3": theirs}


@cache
def warm_up() -> None:
    """What is imported at first use is no training time."""
    timed(ours, "CartPole-v1", 99, 2_000)
    timed(theirs, "CartPole-v1", 99, 1_000)


def run_arm(arm: str, seed: int) -> Run:
    """One program on one task; by itself on the machine, or its seconds mean nothing."""
    warm_up()
    env_id, name = arm.split(", ")
    return timed(PROGRAMS[name], env_id, seed, TASKS[env_id][1])


def by_task(runs: dict[Key, Run]) -> dict[str, Any]:
    """The runs of each program on each task."""
    tasks: dict[str, dict[str, list[Run]]] = {
        env_id: {name: [] for name in PROGRAMS} for env_id in TASKS
    }
    for (arm, _), run in runs.items():
        env_id, name = arm.split(", ")
        tasks[env_id][name].append(run)
    return {"tasks": tasks}


METRICS = ppo.METRICS[:4]
SB3_METRICS = ("policy_gradient_loss", "value_loss", "approx_kl", "explained_variance")
TOLERANCES = {
    **ppo.TOLERANCES,
    **{"policy_gradient_loss": 1e-4, "approx_kl": 1e-4},
    # of returns of hundreds, before the value has learned anything
    **{"Pendulum-v1, nbkit: value_loss 1": 0.1, "Pendulum-v1, nbkit: gradient_norm 1": 0.01},
}
PROTOCOL = {
    "budgets": {name: budget for name, (_, budget) in TASKS.items()},
    "zoo": {name: {k: str(v) for k, v in ZOO[name].items()} for name in TASKS},
    "nbkit": {name: asdict(task) for name, (task, _) in TASKS.items()},
}
STUDY = Frame(
    __file__,
    Arms(
        run_arm,
        [(f"{task}, {name}", seed) for task in TASKS for seed in SEEDS for name in PROGRAMS],
        PROTOCOL,
        result=by_task,
        tell=lambda run: f"{run['last_100']:.1f} in {run['processor_seconds']:.1f} s of processor",
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
