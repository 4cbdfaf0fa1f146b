"""The arm from joint states: learning on every seed, and what is left of it on another arm.

Protocol, fixed before the run: the settings of ``nbkit.recipes.arm_settings``, found on seeds 100
and above. Reach counts as learned at 95 % success on 500 targets that training never drew, with the
most likely action. Then the same agent with a longer budget, trained on the arm as written, is
judged on ``REAL``: an arm whose parameters are fixed here and which no agent was tuned on, and on
arms that share one of its differences each.
"""

from dataclasses import asdict, replace
from typing import Any

from nbkit.envs.arm_model import Physics
from nbkit.recipes.arm_settings import REACH, ArmTaskSettings
from studies import _ppo_head as ppo
from studies._arm_runs import EPISODES, REAL, follow, judged
from studies._arms import Arms, by_arm, every
from studies._frame import Frame, first_updates

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


def head() -> dict[str, float]:
    """The first updates from joint states, and what they reach on the arm of nobody's tuning."""
    trainer = REACH.trainer(SEEDS[0])
    found = first_updates(trainer, 8, ppo.METRICS)
    real = judged(REACH, trainer, SEEDS[0], physics=REAL)
    return found | {f"real: {name}": value for name, value in real.items()}


PROTOCOL = {
    "configs": {name: asdict(task.config) for name, task in ARMS.items()},
    "real": asdict(REAL),
    "episodes": EPISODES,
}
STUDY = Frame(
    __file__,
    Arms(
        run_arm,
        every(ARMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {"threshold": 0.95, "arms": by_arm(runs)},
        tell=lambda run: f"success {run['held_out']['success']:.3f}",
    ).measure,
    head,
    {**ppo.TOLERANCES, "success": 0.02, "mean_steps": 2.0},
)

if __name__ == "__main__":
    STUDY.main()
