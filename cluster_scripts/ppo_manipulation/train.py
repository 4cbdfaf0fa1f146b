# Generated, sha256 9bca3e139dd7a956
"""Training script of the job `ppo_manipulation`, tangled from notebooks/41_manipulation.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
import yaml
from pydantic import TypeAdapter
from torch.distributed.elastic.multiprocessing.errors import record

from nbkit.control.policies_pixels import PixelActorCritic
from nbkit.envs.push import VectorPush
from nbkit.envs.reach import VectorReach
from nbkit.envs.rendering import draw_on
from nbkit.envs.workers import LocalArms, PixelWorkers
from nbkit.runs.run import Run
from nbkit.trainers.ppo.budget import Budget
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.evaluation import success_rate
from nbkit.trainers.ppo.pixels import PixelTrainer

ARMS = {"reach": VectorReach, "push": VectorPush}


@dataclass(frozen=True)
class Config:
    """One run of PPO from pixels; the defaults are tiny."""

    task: Literal["reach", "push"] = "reach"
    # or "ddp": every GPU has environment processes of its own
    backend: Literal["single", "ddp"] = "single"
    processes: int = 0  # of environments, on each GPU's host share; 0: in this process
    arms: int = 8  # in each process
    size: int = 40  # of a frame, in pixels
    frames: int = 3
    shift: int = 0  # random shift of the frames, in pixels
    body: Literal["small", "atari", "resnet"] = "small"
    width: int = 64
    squash: bool = True
    reward: Literal["sparse", "dense", "potential", "closeness"] = "dense"
    steps: int = 8  # of a rollout
    updates: int = 2  # at most
    minutes: float = 0.0  # a run ends after so long; 0: after its updates
    gamma: float = 0.95
    lam: float = 0.95
    learning_rate: float = 5e-4
    epochs: int = 4
    minibatch: int = 64
    clip: float = 0.2
    entropy: float = 0.0
    value_coefficient: float = 0.5
    log_std: float = -0.5
    evaluate_every: int = 20  # updates
    evaluate_on: int = 1  # episodes of each arm at the end
    save_every: int = 100
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


class AveragedAdam(torch.optim.Adam):
    """Adam that first averages the gradients over all devices, then clips their norm."""

    def step(self, closure: Any = None) -> Any:
        """Average, clip, step; every device takes the same step."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad.copy_(part.view_as(p))
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        return super().step(closure)


def make_trainer(config: Config, run: Run) -> PixelTrainer:
    """Environments, network and trainer; ranks share weights and differ in their draws."""
    if config.backend == "ddp" and config.device == "cuda":
        draw_on(run.rank % torch.cuda.device_count())  # each GPU draws what it learns from
    settings = {"reward": config.reward, "gamma": config.gamma}
    make = ARMS[config.task]
    if config.processes:
        source: Any = PixelWorkers(
            config.processes, config.arms, size=config.size, make=make, **settings
        )
    else:
        source = LocalArms(config.arms, size=config.size, make=make, **settings)
    policy = PixelActorCritic(
        3 * config.frames,
        config.size,
        2,
        body=config.body,
        width=config.width,
        log_std=config.log_std,
        squash=config.squash,
        generator=torch.Generator().manual_seed(config.seed),
    ).to(config.device)
    ppo = PPOConfig(
        total_steps=max(1, config.updates * config.steps * source.num_envs),
        steps=config.steps,
        gamma=config.gamma,
        lam=config.lam,
        learning_rate=config.learning_rate,
        epochs=config.epochs,
        minibatch_size=config.minibatch,
        clip=config.clip,
        entropy_coefficient=config.entropy,
        value_coefficient=config.value_coefficient,
        advantage_normalisation="batch",
        max_grad_norm=0.5 if config.backend == "single" else None,
        normalise_rewards=True,
    )
    seed = config.seed + 1_000_000 * run.rank
    trainer = PixelTrainer(
        source,
        policy,
        ppo,
        frames=config.frames,
        shift=config.shift,
        seed=seed,
        budget=Budget(config.updates, config.minutes),
    )
    if config.backend == "ddp":
        trainer.optimiser = AveragedAdam(policy.parameters(), lr=config.learning_rate, eps=1e-5)
    return trainer


def tell(trainer: PixelTrainer, run: Run) -> dict:
    """Print where the training stands."""
    if run.is_main:
        now = trainer.history[-1]
        print(
            f"update {len(trainer.history)}, {trainer.budget.seconds:.0f} s, "
            f"{trainer.steps:,} steps, success {now['success']:.3f}, kl {now['kl']:.4f}, "
            f"entropy {now['entropy']:.2f}, explained {now['explained_variance']:.2f}, "
            f"{now['frames/s']:.0f} frames/s",
            flush=True,
        )
    return {}


def learn(config: Config, run: Run) -> dict:
    """Train until the budget is spent, then judge on targets that training never drew."""
    trainer = make_trainer(config, run)
    try:
        trainer.fit(
            run,
            save_every=config.save_every,
            phase="update",
            measure=lambda: tell(trainer, run),
            measure_every=config.evaluate_every,
            samples_every=0,
        )
        training_seconds = trainer.budget.seconds
        judged = [
            success_rate(
                trainer.source, trainer.policy, frames=config.frames, seed=90_000_000 + i, steps=50
            )
            for i in range(config.evaluate_on)
        ]
    finally:
        trainer.source.close()  # ends the environment processes, whatever happens in training
    every = max(1, len(run.history) // 150)
    kept = [*run.history[::every], run.history[-1]]
    result = {
        "held_out": {
            "success": sum(j["success"] for j in judged) / len(judged),
            "episodes": sum(j["episodes"] for j in judged),
            "mean_steps": sum(j["mean_steps"] for j in judged) / len(judged),
        },
        "parameters": sum(p.numel() for p in trainer.policy.parameters()),
        "environment_steps": trainer.steps * run.world_size,
        "training_seconds": training_seconds,
        "seconds": trainer.seconds,
        "curve": {
            name: [round(row[name], 4) for row in kept]
            for name in ("steps", "seconds", "success", "kl", "entropy", "explained_variance")
        },
    }
    if run.folder is not None and run.is_main:
        half = {name: value.half().cpu() for name, value in trainer.policy.state_dict().items()}
        torch.save(half, run.output / "policy.pt")
    if config.device != "cpu":
        result["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    return run.finish(result)


def main(config: Config) -> dict:
    """Run the job; return its result."""
    if config.backend not in ("single", "ddp"):
        raise ValueError(f"backend must be single or ddp for this job; got {config.backend!r}")
    if config.backend == "ddp" and not dist.is_initialized():
        dist.init_process_group("nccl" if config.device == "cuda" else "gloo")
        if config.device == "cuda":
            torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        return learn(config, run)


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
