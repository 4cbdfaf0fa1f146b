"""Four rewards for one task: what each teaches the arm, on every seed.

Protocol, fixed before the run: ``REACH_REWARDS`` of ``nbkit.recipes.arm_settings``, one set of
settings and 160,000 steps for all four forms, three seeds. Whatever an agent was paid for, it is
judged by success on 500 targets that training never drew, most likely actions, on the arm as
written. The curves are the share of successful episodes in training.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bookkit.authoring.study import start_study
from nbkit.recipes.arm_settings import REACH_REWARDS
from studies._arm_runs import EPISODES, FIRST_TOLERANCES, first_updates, follow, judged
from studies._frame import Frame, by_arm, every, partial_file, run_all

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


def head() -> dict[str, float]:
    """The first updates of all four forms."""
    found: dict[str, float] = {}
    for form, task in REACH_REWARDS.items():
        found |= first_updates(task.trainer(SEEDS[0]), 3, form)
    return found


def measure(out: Path, jobs: int = 1) -> None:
    """Run the study and write its stamped result."""
    configs = {form: asdict(task.config) for form, task in REACH_REWARDS.items()}
    study = start_study(out, seeds=SEEDS, config={"configs": configs, "episodes": EPISODES})
    kept = partial_file(out)
    arms = by_arm(run_all(every(run_arm, list(REACH_REWARDS), SEEDS), jobs=jobs, kept=kept))
    for form, runs in arms.items():
        shares = [round(run["held_out"]["success"], 3) for run in runs]
        print(f"{form}: success {shares}, return {[round(r['last_return'], 2) for r in runs]}")
    study.finish({"arms": arms})
    kept.unlink()


TOLERANCES = FIRST_TOLERANCES
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
