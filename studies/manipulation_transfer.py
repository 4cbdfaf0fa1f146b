"""Sim to real in small: what is left on another arm, with and without randomisation.

Protocol, fixed before the run: the settings of ``nbkit.recipes.arm_settings`` for reach, found on
seeds 100 and above on the arm as written, with a budget of 400,000 steps for both agents. One is
trained on the arm as written; the other draws a new arm from ``RANGES`` for each episode. Both are
judged, most likely actions, on 500 targets that training never drew: on the arm as written, on
``REAL``, on arms that share one of its differences each, and on arms drawn from ``RANGES``. No
agent and no range was chosen by what it reaches on ``REAL``.
"""

from dataclasses import asdict, replace
from typing import Any

from nbkit.envs.arm_model import Physics
from nbkit.envs.arm_randomisation import Ranges
from nbkit.recipes.arm_settings import REACH
from studies import _ppo_head as ppo
from studies._arm_runs import EPISODES, REAL, follow, judged
from studies._arms import Arms, Run, every
from studies._frame import Frame, first_updates

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


def head() -> dict[str, float]:
    """The first updates on random arms, and what they reach on some of them."""
    task = replace(REACH, env_settings=ARMS["random arms"])
    trainer = task.trainer(SEEDS[0])
    found = first_updates(trainer, 6, ppo.METRICS)
    on_random = judged(task, trainer, SEEDS[0], **PLACES["random arms"])
    return found | {f"random arms: {name}": value for name, value in on_random.items()}


def told(run: Run) -> str:
    """What an agent reached in each place."""
    return ", ".join(f"{place} {run['judged'][place]['success']:.3f}" for place in PLACES)


PROTOCOL = {
    "config": asdict(replace(REACH.config, total_steps=STEPS)),
    "real": asdict(REAL),
    "ranges": asdict(RANGES),
    "episodes": EPISODES,
}
STUDY = Frame(
    __file__,
    Arms(run_arm, every(ARMS, SEEDS), PROTOCOL, tell=told).measure,
    head,
    {**ppo.TOLERANCES, "success": 0.02, "mean_steps": 2.0},
)

if __name__ == "__main__":
    STUDY.main()
