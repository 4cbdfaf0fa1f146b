"""Four rewards for one task: what each teaches the arm, on every seed.

Protocol, fixed before the run: ``REACH_REWARDS`` of ``nbkit.trainers.arm_settings``, one set of
settings and 160,000 steps for all four forms, three seeds. Whatever an agent was paid for, it is
judged by success on 500 targets that training never drew, most likely actions, on the arm as
written. The curves are the share of successful episodes in training.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.authoring.study import compare_head, start_study
from nbkit.trainers.arm_settings import REACH_REWARDS

try:
    from studies._arm_runs import EPISODES, follow, judged
    from studies._jobs import run_all
except ModuleNotFoundError:  # run as a script, with this folder on the path
    from _arm_runs import EPISODES, follow, judged
    from _jobs import run_all

SEEDS = (11, 12, 13)


def without_nan(figures: dict[str, float]) -> dict[str, float | None]:
    """Replace NaN by None, which JSON knows as null: no arm arrived, so nothing took any steps."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


def run_arm(arm: str, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Train one seed with one form of the reward, judge it by success."""
    task = REACH_REWARDS[arm]
    trainer = task.trainer(seed, **({} if steps is None else {"total_steps": steps}))
    result = follow(trainer)
    if steps is None:
        result["held_out"] = without_nan(judged(task, trainer, seed))
    return result


def head() -> list[float]:
    """Return the first figures of the study; CI repeats them."""
    torch.set_num_threads(1)
    return run_arm("closeness", SEEDS[0], steps=8_000)["success"]


def main(
    out: Path = Path("studies/results/manipulation_rewards.json"),
    check: bool = False,
    jobs: int = 1,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.05)
        return
    configs = {form: asdict(task.config) for form, task in REACH_REWARDS.items()}
    study = start_study(out, seeds=SEEDS, config={"configs": configs, "episodes": EPISODES})
    keys = [(form, seed) for form in REACH_REWARDS for seed in SEEDS]
    partial = out.with_suffix(".partial.jsonl")
    arms = run_all(run_arm, keys, jobs, partial)
    for form, runs in arms.items():
        shares = [round(run["held_out"]["success"], 3) for run in runs]
        print(f"{form}: success {shares}, return {[round(r['last_return'], 2) for r in runs]}")
    study.finish({"arms": arms, "head": head()})
    partial.unlink()


if __name__ == "__main__":
    typer.run(main)
