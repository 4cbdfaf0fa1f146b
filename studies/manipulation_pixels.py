"""The arm from pixels in two steps: an eye taught by a simulator's labels, then PPO on its word.

Protocol, fixed before the run: settings found on seed 100. ``ROUNDS`` times 128 labelled looks of
two frames of 48 pixels, ``LESSONS`` steps of regression, then the PPO of ``REACH`` for ``STEPS``
frames on what the network says. Judged on 300 held-out targets, the most likely action, from pixels
alone: 90 % counts as learned. The agent from states with the same budget of steps is judged beside
it, and seconds of the processor are counted for both.
"""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.actor_critic import ActorCritic
from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.pixels import ArmCamera
from nbkit.envs.reach import VectorReach
from nbkit.envs.seeing import Perception, SeeingArms, labelled_frames, teach
from nbkit.squashed import SquashActions
from nbkit.trainers.arm_settings import REACH, SquashedActorCritic, arm_success
from nbkit.trainers.ppo import PPOTrainer

try:
    from studies._jobs import run_all
except ModuleNotFoundError:  # run as a script, with this folder on the path
    from _jobs import run_all

SEEDS = (11, 12, 13)
SIZE, FRAMES = 48, 2
ROUNDS, LESSONS, STEPS = 160, 1_500, 200_000
EPISODES = 300


def taught(seed: int, rounds: int, lessons: int) -> tuple[Perception, float]:
    """An eye, and by how many cm it is off in the way to the target, on fresh looks."""
    torch.manual_seed(seed)
    arms = VectorReach(128)
    camera = ArmCamera(arms, SIZE)
    stacks, states = labelled_frames(arms, camera, frames=FRAMES, rounds=rounds, seed=seed)
    exam, answers = labelled_frames(arms, camera, frames=FRAMES, rounds=4, seed=90_000 + seed)
    camera.close()
    perception = Perception(FRAMES, SIZE, states.shape[1])
    generator = torch.Generator().manual_seed(seed)
    teach(perception, stacks, states, steps=lessons, generator=generator)
    with torch.no_grad():
        error = (perception(exam) - answers)[:, 8:10].norm(dim=1).mean().item()
    return perception, 40 * error


def trainer_on(env: Any, seed: int, steps: int) -> PPOTrainer:
    """The agent of the chapter on an environment."""
    generator = torch.Generator().manual_seed(seed)
    network = ActorCritic(
        env.observation_size, env.action_space, shared=False, generator=generator, **REACH.network
    )
    config = replace(REACH.config, total_steps=steps)
    return PPOTrainer(env, SquashedActorCritic(network), config, seed=seed)


def run_arm(arm: str, seed: int, scale: float = 1.0) -> dict[str, Any]:
    """One seed from pixels or from states."""
    started = time.process_time()
    steps = int(STEPS * scale)
    result: dict[str, Any] = {}
    if arm == "pixels":
        perception, error_cm = taught(seed, max(1, int(ROUNDS * scale)), int(LESSONS * scale))
        result |= {"error_cm": error_cm, "eye_seconds": time.process_time() - started}
        env: Any = SquashActions(SeeingArms(VectorReach(32, gamma=REACH.config.gamma), perception))
        exam: Any = SquashActions(SeeingArms(VectorReach(EPISODES), perception))
    else:
        env, exam = REACH.env(32), REACH.env(EPISODES)
    trainer = trainer_on(env, seed, steps)
    curve = []
    while not trainer.finished:
        metrics = trainer.step()
        curve.append((int(metrics["steps"]), round(metrics["length"], 2)))
    result["processor_seconds"] = time.process_time() - started
    judged = arm_success(exam, trainer.policy, trainer.normaliser, seed=50_000 + seed)
    every = max(1, len(curve) // 60)
    kept = [point for point in curve[::every] if point[1] == point[1]]
    return {
        **result,
        "held_out": judged,
        "steps": [point[0] for point in kept],
        "length": [point[1] for point in kept],
    }


def head() -> list[float]:
    """Return the first figures of the study; CI repeats them."""
    torch.set_num_threads(1)
    _, error_cm = taught(SEEDS[0], 2, 20)
    return [round(error_cm, 2)]


def main(
    out: Path = Path("studies/results/manipulation_pixels.json"),
    check: bool = False,
    jobs: int = 1,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=1.5)
        return
    protocol = {
        **{"rounds": ROUNDS, "lessons": LESSONS, "steps": STEPS, "size": SIZE, "frames": FRAMES},
        "ppo": asdict(REACH.config),
        "episodes": EPISODES,
    }
    study = start_study(out, seeds=SEEDS, config=protocol)
    keys = [(arm, seed) for arm in ("pixels", "states") for seed in SEEDS]
    partial = out.with_suffix(".partial.jsonl")
    arms = run_all(run_arm, keys, jobs, partial)
    for arm, runs in arms.items():
        print(f"{arm}: {[round(run['held_out']['success'], 3) for run in runs]}")
    study.finish({"threshold": 0.9, "arms": arms, "head": head()})
    partial.unlink()


if __name__ == "__main__":
    typer.run(main)
