"""PPO on four tasks of classic control and Box2D: does it learn, on every seed?

Protocol, fixed before the run: the settings of ``studies._ppo_settings``, found on seeds 100
to 105. CartPole-v1 counts as solved at a mean return of 475 over the last 100 episodes, and a run
stops there; LunarLander-v3 counts as solved at 200, Pendulum-v1 at -200, and both use their whole
budget. Every policy is then judged on fresh episodes with the most likely action. MountainCar-v0
runs plain, where a random policy hardly ever meets the goal; with rl-baselines3-zoo's normalisers;
with a potential-based reward; and with both; judged on the plain task.
"""

import math
from dataclasses import asdict
from typing import Any

from nbkit.control.environments import make_control_env
from nbkit.trainers.ppo import PPOTrainer, evaluate
from studies import _ppo_head as ppo
from studies._arms import Arms, by_arm
from studies._frame import Frame, first_updates
from studies._ppo_settings import (
    CARTPOLE,
    LUNAR_LANDER,
    MOUNTAIN_CAR,
    MOUNTAIN_CAR_NORMALISED,
    MOUNTAIN_CAR_SHAPED,
    MOUNTAIN_CAR_SHAPED_NORMALISED,
    PENDULUM,
    Task,
)

SEEDS = (1, 2, 3, 4, 5)
# arm: task, how many of the seeds, stop at the threshold?, episodes of the evaluation
ARMS: dict[str, tuple[Task, int, bool, int]] = {
    "CartPole-v1": (CARTPOLE, 5, True, 100),
    "Pendulum-v1": (PENDULUM, 3, False, 100),
    "MountainCar-v0": (MOUNTAIN_CAR, 3, False, 100),
    "MountainCar-v0, normalised": (MOUNTAIN_CAR_NORMALISED, 3, False, 100),
    "MountainCar-v0, shaped": (MOUNTAIN_CAR_SHAPED, 3, False, 100),
    "MountainCar-v0, shaped and normalised": (MOUNTAIN_CAR_SHAPED_NORMALISED, 3, False, 100),
    "LunarLander-v3": (LUNAR_LANDER, 3, False, 100),
}
POINTS = 120


def judged(trainer: PPOTrainer, task: Task, seed: int, episodes: int) -> list[float]:
    """Returns of the plain task, most likely action, from a seed that training never saw."""
    env = make_control_env(task.env_id, min(episodes, 16))
    returns = evaluate(
        env,
        trainer.policy,
        episodes=episodes,
        seed=10_000 + seed,
        action_bounds=task.config.action_bounds,
        normaliser=trainer.normaliser,
    )
    env.close()
    return returns


def curve(trainer: PPOTrainer) -> dict[str, list[float]]:
    """Some of the updates: steps and mean return of the last 100 episodes."""
    known = [step for step in trainer.history if not math.isnan(step["return"])]
    every = max(1, len(known) // POINTS)
    kept = known[::every] + known[-1:]
    return {
        "steps": [step["steps"] for step in kept],
        "return": [round(step["return"], 2) for step in kept],
    }


def run_arm(name: str, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Train one seed of one arm and judge it."""
    task, _, stops, episodes = ARMS[name]
    trainer = task.trainer(seed, **({} if steps is None else {"total_steps": steps}))
    trainer.run(progress=False, stop_return=task.solved if stops else None)
    trainer.env.close()
    returns = judged(trainer, task, seed, episodes) if steps is None else []
    return {
        "seed": seed,
        "steps": trainer.episodes.steps,
        "steps_to_solved": trainer.episodes.steps_to(task.solved),
        "last_100": trainer.episodes.mean_return(),
        "evaluation": [round(value, 2) for value in returns],
        "curve": curve(trainer),
    }


def head() -> dict[str, float]:
    """The first updates of each kind of task: discrete, continuous, normalised, Box2D."""
    found: dict[str, float] = {}
    for name in ("CartPole-v1", "Pendulum-v1", SLOPE):
        found |= _first_updates(name, 2)
    return found | _first_updates("LunarLander-v3", 1)


def _first_updates(name: str, updates: int) -> dict[str, float]:
    trainer = ARMS[name][0].trainer(SEEDS[0])
    found = first_updates(trainer, updates, ppo.METRICS, name)
    trainer.env.close()
    return found


SLOPE = "MountainCar-v0, shaped and normalised"
TOLERANCES = {
    **ppo.TOLERANCES,
    # of returns of hundreds, before the value has learned anything
    **{"Pendulum-v1: value_loss 1": 0.1, "Pendulum-v1: gradient_norm 1": 0.01},
    **{"LunarLander-v3: value_loss 1": 0.5, "LunarLander-v3: gradient_norm 1": 0.05},
    **{f"{SLOPE}: value_loss 1": 0.01, f"{SLOPE}: gradient_norm 1": 0.01},
}
THRESHOLDS = {name: task.solved for name, (task, *_) in ARMS.items()}
STUDY = Frame(
    __file__,
    Arms(
        run_arm,
        [(name, seed) for name, (_, seeds, *_) in ARMS.items() for seed in SEEDS[:seeds]],
        {"tasks": {name: asdict(task) for name, (task, *_) in ARMS.items()}},
        result=lambda runs: {"thresholds": THRESHOLDS, "arms": by_arm(runs)},
        tell=lambda run: f"{run['steps']} steps, {run['last_100']:.1f}",
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
