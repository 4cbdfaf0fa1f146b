"""What the studies of chapter 41 share: a training run that notes its successes, and a judge."""

import math
from typing import Any

from torch import Tensor

from nbkit.envs.arm_model import Physics
from nbkit.recipes.arm_settings import ArmTaskSettings, arm_success

POINTS = 60
EPISODES = 500
# The arm that no agent was tuned on.
REAL = Physics(mass=1.5, damping=2.0, joint_friction_nm=0.06, latency_steps=2)


def follow(trainer: Any) -> dict[str, Any]:
    """Train to the end of the budget.

    Args:
        trainer: a ``PPOTrainer`` of an arm, whose episodes terminate by success alone.

    Returns:
        "steps", "success" (of the last 300 episodes) and "returns" (means of the last 100) at about
        60 points, "first_return" and "last_return" (means of the first and the last 100 episodes).

    """
    ended: list[bool] = []
    curve: list[tuple[int, float, float]] = []
    plain_update = trainer._update_normalisers

    def note(rollout: Any) -> None:
        """Count successes where the trainer looks at its rollout anyway."""
        ended.extend(rollout.terminated[rollout.done & rollout.valid].tolist())
        plain_update(rollout)

    trainer._update_normalisers = note
    while not trainer.finished:
        metrics = trainer.step()
        recent = ended[-300:]
        success = sum(recent) / len(recent) if recent else math.nan
        curve.append((int(metrics["steps"]), success, trainer.episodes.mean_return()))
    every = max(1, len(curve) // POINTS)
    kept = [point for point in curve[::every] + curve[-1:] if not math.isnan(point[1])]
    first = [episode[1] for episode in trainer.episodes.finished[:100]]
    return {
        "steps": [point[0] for point in kept],
        "success": [round(point[1], 4) for point in kept],
        "returns": [round(point[2], 3) for point in kept],
        "first_return": sum(first) / len(first),
        "last_return": trainer.episodes.mean_return(),
    }


def judged(task: ArmTaskSettings, trainer: Any, seed: int, **arms: Any) -> dict[str, float]:
    """Success on 500 fresh targets.

    Args:
        task: whose arms.
        trainer: whose policy, with its normaliser.
        seed: of the run.
        **arms: ``physics`` or ``randomisation``; neither: the arm as written.

    """
    env = task.env(EPISODES, **{"randomisation": None, **arms})
    return arm_success(env, trainer.policy, trainer.normaliser, seed=50_000 + seed)


def picture_figures(frames: Tensor, when: str) -> dict[str, float]:
    """Figures of a head: mean brightness, 0 to 255, of 4 x 4 parts of the first arm's picture.

    Args:
        frames: (N, H, W, 3) or (N, 3, H, W), H and W multiples of 4.
        when: names them.

    """
    first = frames[0].float()
    grey = first.mean(-1) if first.shape[-1] == 3 else first.mean(0)
    height, width = grey.shape[0] // 4, grey.shape[1] // 4
    parts = grey.reshape(4, height, 4, width).mean((1, 3)).flatten().tolist()
    return {f"{when}: brightness {i}": value for i, value in enumerate(parts)}
