"""A run that saves after every update, to be killed: killed_run.py CHECKPOINT ENV UPDATES."""

import sys
from pathlib import Path

import torch

from nbkit.control.actor_critic import make_actor_critic
from nbkit.control.environments import make_control_env
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.ppo import PPOConfig, PPOTrainer

CONFIG = PPOConfig(total_steps=100_000, epochs=2, normalise_observations=True)


def trainer(env_id: str) -> PPOTrainer:
    env = make_control_env(env_id, 4)
    return PPOTrainer(env, make_actor_critic(env, seed=3), CONFIG, seed=3)


def main(path: Path, env_id: str, updates: int) -> None:
    torch.set_num_threads(1)
    run = trainer(env_id)
    if path.exists():
        resume(path, run)
    while len(run.history) < updates:
        run.step()
        save(path, run)
        print(len(run.history), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
