"""A policy that writes Python: unit tests as the reward, all or nothing against the share passed.

Protocol, fixed before the run: three seeds; both arms of a seed start from the same taught model (a
chance of 0.4 a line for a planted habit) and see the same 400 tasks in the same order: 40 updates
of 16 tasks with 8 programs each, GRPO without KL, learning rate 1e-3 falling to a tenth. Every
program is judged by eight unit tests in the sandbox. In the end 200 held-out tasks get one program
each; "accuracy" is the share that passes all tests. Settings were tried on seed 100, binary.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.expressions import CodeRewards, draw_tasks
from nbkit.rewards.pool import SandboxPool
from nbkit.trainers.grpo_code import code_trainer, evaluate_code, taught_coder

sys.path.insert(0, str(Path(__file__).parent))  # what the studies of chapter 23 share
from _grpo import curve, interval

SEEDS = (1, 2, 3)
ARMS = ("binary", "graded")
UPDATES, LESSONS, HELD_OUT = 40, 350, 200
GAIN = 0.2  # of accuracy, that every seed of "binary" must reach


def run_arm(
    arm: str, seed: int, weights: dict[str, Any], model: Any, updates: int, held_out: int, jobs: int
) -> dict[str, Any]:
    """Train one seed of one arm from the taught weights and judge it."""
    model.load_state_dict(weights)
    asked = draw_tasks(held_out, seed=10_000 + seed, held_out=True)
    with SandboxPool(jobs) as pool:
        rewards = CodeRewards(pool, reward=arm)
        before = evaluate_code(model, asked, rewards, seed=seed)
        trainer = code_trainer(model, rewards, seed, updates=updates)
        start = time.perf_counter()
        history = trainer.run(progress=False)
        seconds = time.perf_counter() - start
        after = evaluate_code(model, asked, rewards, seed=seed)
    shares = [round(step["reward/share"], 4) for step in history]
    return {
        "seed": seed,
        "before": before,
        "after": after,
        "seconds": round(seconds, 1),
        "seconds in the sandbox": round(sum(step["seconds/reward"] for step in history), 1),
        "programs asked": rewards.asked,
        "programs judged": rewards.judged,
        "curve": {**curve(history), "share": shares},
    }


def head() -> list[float]:
    """Return the first figures of the study, without a sandbox; CI repeats them."""
    model = taught_coder(SEEDS[0], lessons=12)
    total = sum(p.double().abs().sum().item() for p in model.parameters())
    tasks = draw_tasks(50, seed=SEEDS[0])
    return [total / 1000, float(sum(task.value(3, -4) for task in tasks))]


def main(
    out: Path = Path("studies/results/grpo_code.json"),
    check: bool = False,
    jobs: int = 2,
    minutes: float = math.inf,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``.

    Args:
        out: the result file; written after every seed.
        check: repeat the head and compare.
        jobs: programs judged at a time.
        minutes: no seed begins later.

    """
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.1)
        return
    config = {"arms": ARMS, "updates": UPDATES, "lessons": LESSONS, "held_out": HELD_OUT}
    study = start_study(out, seeds=SEEDS, config=config)
    first, start = head(), time.monotonic()
    arms: dict[str, list[Any]] = {arm: [] for arm in ARMS}
    for seed in SEEDS:
        if time.monotonic() - start > 60 * minutes:
            break
        model = taught_coder(seed, lessons=LESSONS)
        weights = {name: x.clone() for name, x in model.state_dict().items()}
        for arm in ARMS:
            run = run_arm(arm, seed, weights, model, UPDATES, HELD_OUT, jobs)
            arms[arm].append(run)
            print(f"{arm}, seed {seed}: {run['before']} -> {run['after']}", flush=True)
        rows: dict[str, Any] = {
            arm: {
                when: {
                    key: interval([run[when][key] for run in runs])
                    for key in ("accuracy", "share", "length")
                }
                for when in ("before", "after")
            }
            for arm, runs in arms.items()
        }
        pairs = zip(arms["graded"], arms["binary"], strict=True)
        rows["graded minus binary"] = interval(
            [a["after"]["accuracy"] - b["after"]["accuracy"] for a, b in pairs]
        )
        study.finish({"summary": rows, "arms": arms, "gain": GAIN, "head": first})
    for run in arms["binary"]:
        gain = run["after"]["accuracy"] - run["before"]["accuracy"]
        if gain < GAIN:
            raise SystemExit(f"seed {run['seed']} gained {gain:.3f}; {GAIN} was asked for")


if __name__ == "__main__":
    typer.run(main)
