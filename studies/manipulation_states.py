"""The arm from joint states: learning on every seed, and what is left of it on another arm.

Protocol, fixed before the run: the settings of ``nbkit.trainers.arm_settings``, found on seeds 100
and above. Reach counts as learned at 95 % success on 500 targets that training never drew, with the
most likely action. Then the same agent with a longer budget, trained on the arm as written, is
judged on ``REAL``: an arm whose parameters are fixed here and which no agent was tuned on, and on
arms that share one of its differences each.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.arm_model import Physics
from nbkit.trainers.arm_settings import REACH, ArmTaskSettings

try:
    from studies._arm_runs import EPISODES, REAL, follow, judged
    from studies._jobs import run_all
except ModuleNotFoundError:  # run as a script, with this folder on the path
    from _arm_runs import EPISODES, REAL, follow, judged
    from _jobs import run_all

SEEDS = (11, 12, 13)
_LONGER = replace(REACH, config=replace(REACH.config, total_steps=400_000))
ARMS: dict[str, ArmTaskSettings] = {
    "reach": REACH,
    "reach, as written": _LONGER,
}


def run_arm(arm: str, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Train one seed of one arm, note its curve, judge it."""
    task = ARMS[arm]
    trainer = task.trainer(seed, **({} if steps is None else {"total_steps": steps}))
    followed = follow(trainer)
    result: dict[str, Any] = {
        "steps": followed["steps"],
        "success": followed["success"],
        "returns": followed["returns"],
        "return_last_100": followed["last_return"],
    }
    if steps is None:
        result["held_out"] = judged(task, trainer, seed, physics=Physics())
        if arm == "reach, as written":
            result["real"] = judged(task, trainer, seed, physics=REAL)
            for name, physics in {
                "mass": Physics(mass=REAL.mass),
                "damping": Physics(damping=REAL.damping),
                "joint friction": Physics(joint_friction_nm=REAL.joint_friction_nm),
                "latency": Physics(latency_steps=REAL.latency_steps),
            }.items():
                result[f"real: {name} alone"] = judged(task, trainer, seed, physics=physics)
    return result


def head() -> list[float]:
    """Return the first figures of the study; CI repeats them."""
    torch.set_num_threads(1)
    return run_arm("reach", SEEDS[0], steps=8_000)["success"]


def main(
    out: Path = Path("studies/results/manipulation_states.json"),
    check: bool = False,
    jobs: int = 1,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.05)
        return
    protocol = {
        "configs": {name: asdict(task.config) for name, task in ARMS.items()},
        "real": asdict(REAL),
        "episodes": EPISODES,
    }
    study = start_study(out, seeds=SEEDS, config=protocol)
    keys = [(arm, seed) for arm in ARMS for seed in SEEDS]
    arms = run_all(run_arm, keys, jobs, out.with_suffix(".partial.jsonl"))
    for arm, runs in arms.items():
        print(f"{arm}: {[round(run['held_out']['success'], 3) for run in runs]}")
    study.finish({"threshold": 0.95, "arms": arms, "head": head()})
    out.with_suffix(".partial.jsonl").unlink()


if __name__ == "__main__":
    typer.run(main)
