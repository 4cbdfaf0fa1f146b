"""Sim to real in small: what is left on another arm, with and without randomisation.

Protocol, fixed before the run: the settings of ``nbkit.trainers.arm_settings`` for reach, found on
seeds 100 and above on the arm as written, with a budget of 400,000 steps for both agents. One is
trained on the arm as written; the other draws a new arm from ``RANGES`` for each episode. Both are
judged, most likely actions, on 500 targets that training never drew: on the arm as written, on
``REAL``, on arms that share one of its differences each, and on arms drawn from ``RANGES``. No
agent and no range was chosen by what it reaches on ``REAL``.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.arm_model import Physics
from nbkit.envs.arm_randomisation import Ranges
from nbkit.trainers.arm_settings import REACH

try:
    from studies._arm_runs import EPISODES, REAL, follow, judged
    from studies._jobs import run_all
except ModuleNotFoundError:  # run as a script, with this folder on the path
    from _arm_runs import EPISODES, REAL, follow, judged
    from _jobs import run_all

SEEDS = (11, 12, 13)
STEPS = 400_000
RANGES = Ranges(
    mass=(0.6, 2.0), damping=(0.5, 3.0), joint_friction_nm=(0.0, 0.1), latency_steps=(0, 3)
)
ARMS: dict[str, dict[str, Any]] = {
    "the arm as written": {},
    "random arms": {"randomisation": RANGES},
}
PLACES: dict[str, dict[str, Any]] = {
    "the arm as written": {},
    "mass": {"physics": Physics(mass=REAL.mass)},
    "damping": {"physics": Physics(damping=REAL.damping)},
    "joint friction": {"physics": Physics(joint_friction_nm=REAL.joint_friction_nm)},
    "latency": {"physics": Physics(latency_steps=REAL.latency_steps)},
    "the real arm": {"physics": REAL},
    "random arms": {"randomisation": RANGES},
}


def run_arm(arm: str, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """Train one seed on one kind of arm, judge it on all."""
    task = replace(REACH, env_settings=ARMS[arm])
    trainer = task.trainer(seed, total_steps=steps)
    result = follow(trainer)
    places = PLACES if steps == STEPS else {}
    return {**result, "judged": {p: judged(task, trainer, seed, **a) for p, a in places.items()}}


def head() -> list[float]:
    """Return the first figures of the study; CI repeats them."""
    torch.set_num_threads(1)
    return run_arm("random arms", SEEDS[0], steps=8_000)["success"]


def main(
    out: Path = Path("studies/results/manipulation_transfer.json"),
    check: bool = False,
    jobs: int = 1,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.05)
        return
    config = asdict(replace(REACH.config, total_steps=STEPS))
    protocol = {
        **{"config": config, "real": asdict(REAL), "ranges": asdict(RANGES)},
        "episodes": EPISODES,
    }
    study = start_study(out, seeds=SEEDS, config=protocol)
    keys = [(arm, seed) for arm in ARMS for seed in SEEDS]
    partial = out.with_suffix(".partial.jsonl")
    arms = run_all(run_arm, keys, jobs, partial)
    for arm, runs in arms.items():
        for place in PLACES:
            shares = [round(run["judged"][place]["success"], 3) for run in runs]
            print(f"trained on {arm}, judged on {place}: {shares}")
    study.finish({"arms": arms, "head": head()})
    partial.unlink()


if __name__ == "__main__":
    typer.run(main)
