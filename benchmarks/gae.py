"""Generalised advantage estimation on (2048, 1024) against Stable-Baselines3's buffer.

    python benchmarks/gae.py --out benchmarks/results/gae.json

The same float32 data, one process, one thread, the two in turn. Processor seconds, which other
work on the machine disturbs less than those of the clock.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from gymnasium import spaces
from side_by_side import ratios, spread, start, timed_in_turn
from stable_baselines3.common.buffers import RolloutBuffer

from nbkit.advantages import gae

STEPS, ENVS, GAMMA, LAM = 2048, 1024, 0.99, 0.95
ROUNDS = 15


def rollout(steps: int, envs: int) -> dict[str, np.ndarray]:
    """Random rewards and values, an episode end in 50 steps."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, steps, envs)).astype(np.float32)
    done = rng.random((steps, envs)) < 0.02
    last_values = rng.normal(size=envs).astype(np.float32)
    return {"rewards": rewards, "values": values, "done": done, "last_values": last_values}


def filled_buffer(data: dict[str, np.ndarray]) -> RolloutBuffer:
    steps, envs = data["rewards"].shape
    box = spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(steps, box, box, gamma=GAMMA, gae_lambda=LAM, n_envs=envs)
    buffer.rewards[:], buffer.values[:] = data["rewards"], data["values"]
    buffer.episode_starts[1:] = data["done"][:-1]
    return buffer


def theirs(buffer: RolloutBuffer, data: dict[str, np.ndarray]) -> np.ndarray:
    buffer.compute_returns_and_advantage(torch.from_numpy(data["last_values"]), data["done"][-1])
    return buffer.advantages


def ours(data: dict[str, np.ndarray]) -> np.ndarray:
    """From the same arrays; the next values are put together inside the measured time."""
    values, done = torch.from_numpy(data["values"]), torch.from_numpy(data["done"])
    next_values = torch.cat([values[1:], torch.from_numpy(data["last_values"])[None]])
    rewards = torch.from_numpy(data["rewards"])
    return gae(rewards, values, next_values, done, done, gamma=GAMMA, lam=LAM)[0].numpy()


def measure(steps: int, envs: int, rounds: int) -> dict[str, Any]:
    """Seconds of both, round by round, and how far apart the advantages are."""
    data = rollout(steps, envs)
    buffer = filled_buffer(data)
    difference = float(np.abs(ours(data) - theirs(buffer, data)).max())
    contestants = {"sb3": lambda: theirs(buffer, data), "ours": lambda: ours(data)}
    times = timed_in_turn(contestants, rounds, gpu=False)
    return {
        "seconds": times,
        "median_seconds": {name: spread(taken).median for name, taken in times.items()},
        "ours_over_sb3": spread(ratios(times["ours"], times["sb3"]))._asdict(),
        "largest_difference": difference,
    }


def main(
    out: Annotated[Path | None, typer.Option(help="Where the stamped JSON goes.")] = None,
    quick: Annotated[bool, typer.Option(help="Small, to see that it runs.")] = False,
) -> None:
    """Measure, print, and store where asked."""
    torch.set_num_threads(1)
    steps, envs, rounds = (64, 8, 2) if quick else (STEPS, ENVS, ROUNDS)
    config = {"steps": steps, "envs": envs, "gamma": GAMMA, "lam": LAM, "rounds": rounds}
    record = start(out, seeds=[0], config=config)
    result = measure(steps, envs, rounds)
    ratio, median = result["ours_over_sb3"], result["median_seconds"]
    print(
        f"({steps}, {envs}): SB3 {1e3 * median['sb3']:.1f} ms, ours {1e3 * median['ours']:.1f} ms; "
        f"ours / SB3 {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f}); "
        f"largest difference {result['largest_difference']:.1e}"
    )
    record.finish(result)


if __name__ == "__main__":
    typer.run(main)
