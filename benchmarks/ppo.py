"""PPO on CartPole and LunarLander: nbkit, Stable-Baselines3, a single file in CleanRL's manner.

    python benchmarks/ppo.py --out benchmarks/results/ppo.json

One process, one thread, all in turn for each seed. CartPole: environment steps and seconds until
the mean return of the last 100 episodes reaches 475. LunarLander: steps a second over a fixed
number of steps, each with its own settings. Stable-Baselines3 runs the settings of rl-baselines3-
zoo, the single file those of its source. Seconds of the clock, and of the processor beside them:
other work on the machine disturbs the latter less.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import ppo_single_file
import torch
import typer
from side_by_side import in_turn, ratios, spread, start
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from studies._ppo_settings import CARTPOLE, CARTPOLE_WIDE, LUNAR_LANDER, Task
from studies._zoo_settings import ZOO, ZOO_STEPS

SEEDS = (0, 1, 2)  # tuning used 100 to 105
THRESHOLD, EPISODES = 475.0, 100
LANDER_STEPS = 49_152
SINGLE_FILE_TOTAL = 500_000

Run = dict[str, Any]


class Watch(BaseCallback):
    """Note every episode; stop at the threshold or the budget."""

    def __init__(self, budget: int, threshold: float | None) -> None:
        super().__init__()
        self.budget, self.threshold = budget, threshold
        self.returns: list[float] = []
        self.reached: int | None = None

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
        recent = self.returns[-EPISODES:]
        full = self.threshold is not None and len(recent) == EPISODES
        if full and statistics.fmean(recent) >= self.threshold:
            self.reached = self.num_timesteps
        return self.reached is None and self.num_timesteps < self.budget


def sb3(env_id: str, seed: int, budget: int, threshold: float | None) -> tuple[int, int | None]:
    settings = dict(ZOO[env_id])
    envs = make_vec_env(env_id, settings.pop("n_envs"), seed=seed)
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    watch = Watch(budget, threshold)
    model.learn(ZOO_STEPS[env_id], callback=watch)
    envs.close()
    return model.num_timesteps, watch.reached


def ours(task: Task, seed: int, budget: int, threshold: float | None) -> tuple[int, int | None]:
    trainer = task.trainer(seed)
    while not trainer.finished and trainer.episodes.steps < budget:
        trainer.step()
        if threshold is not None and trainer.episodes.steps_to(threshold) is not None:
            break
    trainer.env.close()
    reached = None if threshold is None else trainer.episodes.steps_to(threshold)
    return trainer.episodes.steps, reached


def single_file(
    env_id: str, seed: int, budget: int, threshold: float | None
) -> tuple[int, int | None]:
    def first(episodes: list[tuple[int, float]]) -> int | None:
        for i in range(EPISODES, len(episodes) + 1):
            if statistics.fmean(r for _, r in episodes[i - EPISODES : i]) >= (threshold or 0):
                return episodes[i - 1][0]
        return None

    def stop(episodes: list[tuple[int, float]]) -> bool:
        return threshold is not None and first(episodes[-EPISODES - 20 :]) is not None

    taken, episodes = ppo_single_file.train(
        env_id, seed=seed, total_steps=SINGLE_FILE_TOTAL, budget=budget, stop=stop
    )
    return taken, None if threshold is None else first(episodes)


def timed(run: Callable[[], tuple[int, int | None]]) -> Run:
    wall, processor = time.perf_counter(), time.process_time()
    steps, reached = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {
        "steps": steps,
        "steps_to_threshold": reached,
        "seconds": wall,
        "processor_seconds": processor,
        "steps_per_second": steps / wall,
        "steps_per_processor_second": steps / processor,
    }


def cartpole(seeds: tuple[int, ...], scale: float) -> dict[str, list[Run]]:
    """Until 475; ``scale`` shortens the budgets."""
    budgets = {"single file": int(SINGLE_FILE_TOTAL * scale), "nbkit wide": int(200_000 * scale)}
    usual = int(100_000 * scale)
    contestants: dict[str, Callable[[int], tuple[int, int | None]]] = {
        "nbkit": lambda seed: ours(CARTPOLE, seed, usual, THRESHOLD),
        "sb3": lambda seed: sb3("CartPole-v1", seed, usual, THRESHOLD),
        "nbkit wide": lambda seed: ours(CARTPOLE_WIDE, seed, budgets["nbkit wide"], THRESHOLD),
        "single file": lambda seed: single_file(
            "CartPole-v1", seed, budgets["single file"], THRESHOLD
        ),
    }
    return runs_of(contestants, seeds, "CartPole-v1")


def lander(seeds: tuple[int, ...], steps: int) -> dict[str, list[Run]]:
    contestants: dict[str, Callable[[int], tuple[int, int | None]]] = {
        "nbkit": lambda seed: ours(LUNAR_LANDER, seed, steps, None),
        "sb3": lambda seed: sb3("LunarLander-v3", seed, steps, None),
        "single file": lambda seed: single_file("LunarLander-v3", seed, steps, None),
    }
    return runs_of(contestants, seeds, "LunarLander-v3")


def runs_of(
    contestants: dict[str, Callable[[int], tuple[int, int | None]]],
    seeds: tuple[int, ...],
    title: str,
) -> dict[str, list[Run]]:
    """Every contestant with every seed, in turn."""

    def tell(name: str, seed: int, run: Run) -> None:
        print(
            f"{title} seed {seed} {name:12s} {run['steps']:7d} steps in {run['seconds']:6.1f} s"
            f" ({run['processor_seconds']:6.1f} s of processor),"
            f" {run['steps_per_processor_second']:7.0f} steps/s,"
            f" 475 at {run['steps_to_threshold']}",
            flush=True,
        )

    def run_of(contestant: Callable[[int], tuple[int, int | None]]) -> Callable[[int], Run]:
        return lambda seed: {"seed": seed, **timed(lambda: contestant(seed))}

    return in_turn({name: run_of(one) for name, one in contestants.items()}, seeds, tell)


def ratios_of(runs: dict[str, list[Run]], ours_name: str, theirs: str, key: str) -> Run:
    """Seed by seed theirs / ours of seconds, ours / theirs of speeds; None where one has none."""
    pairs = [
        (a[key], b[key])
        for a, b in zip(runs[ours_name], runs[theirs], strict=True)
        if a[key] is not None and b[key] is not None
    ]
    if not pairs:
        return {"median": None, "least": None, "most": None, "seeds": 0}
    mine, others = zip(*pairs, strict=True)
    found = ratios(mine, others) if "per" in key else ratios(others, mine)
    return {**spread(found)._asdict(), "seeds": len(pairs)}


def environment_alone(task: Task, steps: int) -> float:
    """Steps a processor second of the environments with random actions: nothing can beat it."""
    trainer = task.trainer(0)
    trainer.env.reset(0)
    actions = torch.randint(0, 2, (steps, task.num_envs))
    start = time.process_time()
    for row in actions:
        trainer.env.step(row)
    seconds = time.process_time() - start
    trainer.env.close()
    return steps * task.num_envs / seconds


def main(
    out: Annotated[Path | None, typer.Option(help="Where the stamped JSON goes.")] = None,
    quick: Annotated[bool, typer.Option(help="Small, to see that it runs.")] = False,
) -> None:
    """Measure, print, and store where asked."""
    torch.set_num_threads(1)
    seeds = SEEDS[:1] if quick else SEEDS
    scale, steps = (0.05, 4096) if quick else (1.0, LANDER_STEPS)
    config = {
        "seeds": seeds,
        "threshold": THRESHOLD,
        "episodes": EPISODES,
        "lander_steps": steps,
        "nbkit": [CARTPOLE, CARTPOLE_WIDE, LUNAR_LANDER],
        "zoo": {name: {k: str(v) for k, v in ZOO[name].items()} for name in ZOO_STEPS},
        "zoo_steps": ZOO_STEPS,
    }
    record = start(out, seeds=seeds, config=config)
    ours(CARTPOLE, 99, 2000, None)  # what is imported at first use is no one's training time
    sb3("CartPole-v1", 99, 1000, None)
    result: dict[str, Any] = {
        "cartpole": cartpole(seeds, scale),
        "lunar_lander": lander(seeds[:3], steps),
        "environment_alone": {
            f"CartPole-v1, {CARTPOLE.num_envs}": environment_alone(CARTPOLE, 2000),
            f"CartPole-v1, {CARTPOLE_WIDE.num_envs}": environment_alone(CARTPOLE_WIDE, 2000),
            f"LunarLander-v3, {LUNAR_LANDER.num_envs}": environment_alone(LUNAR_LANDER, 500),
        },
    }
    result["ratios"] = {
        f"{task}: {name} to {theirs}, {key}": ratios_of(result[task], name, theirs, key)
        for task, names in (("cartpole", ("nbkit", "nbkit wide")), ("lunar_lander", ("nbkit",)))
        for name in names
        for theirs in ("sb3", "single file")
        for key in (
            "seconds",
            "processor_seconds",
            "steps_per_second",
            "steps_per_processor_second",
            "steps_to_threshold",
        )
        if not (task == "lunar_lander" and ("seconds" in key or key == "steps_to_threshold"))
    }
    for name, ratio in result["ratios"].items():
        if ratio["median"] is not None:
            print(f"{name}: {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})")
    record.finish(result)


if __name__ == "__main__":
    typer.run(main)
