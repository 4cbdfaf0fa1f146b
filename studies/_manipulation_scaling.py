"""Steps a second of the trainer from pixels, against environment processes and against GPUs.

Not recorded yet, and so not a study: without the underscore in its name it becomes one.

Protocol: the settings of the job ``ppo_manipulation`` (read from its rendered ``config.yaml``). A
fixed number of arms, 256, is dealt to ``--processes`` processes; each arrangement is timed for
``--seconds`` twice: the simulator alone, with random actions, and the whole trainer, two updates
of warming up left out. Then the job itself runs for ``--job-seconds`` on each number of
``--gpus``, started as its launch script does, with 8 processes of 32 arms a GPU; its rate is that
of the rows of its log after the first third. All by the clock, so on an idle machine only.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import typer
import yaml

from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.workers import PixelWorkers
from nbkit.policies_pixels import PixelActorCritic
from nbkit.trainers.ppo_config import PPOConfig
from nbkit.trainers.ppo_pixels import PixelTrainer

JOB = Path(__file__).resolve().parents[1] / "cluster_scripts" / "ppo_manipulation"
ARMS = 256
PROCESSES_A_GPU = 8
SEEDS = (41,)


def job_settings() -> dict[str, Any]:
    """The settings that the job is launched with."""
    settings: dict[str, Any] = yaml.safe_load((JOB / "launch" / "config.yaml").read_text())
    return settings


def make_trainer(source: PixelWorkers, job: dict[str, Any], device: str) -> PixelTrainer:
    """The job's trainer on a source of one's own."""
    policy = PixelActorCritic(
        3 * job["frames"],
        job["size"],
        2,
        body=job["body"],
        width=job["width"],
        generator=torch.Generator().manual_seed(SEEDS[0]),
    ).to(device)
    config = PPOConfig(
        steps=job["steps"],
        gamma=0.95,
        lam=0.95,
        learning_rate=job["learning_rate"],
        epochs=job["epochs"],
        minibatch_size=job["minibatch"],
        advantage_normalisation="batch",
        normalise_rewards=True,
    )
    return PixelTrainer(source, policy, config, frames=job["frames"], seed=SEEDS[0])


def timed(call: Callable[[], Any], seconds: float) -> tuple[int, float]:
    """Repeat a call; return how often, and in what time."""
    calls, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        call()
        calls += 1
    return calls, time.perf_counter() - started


def of_processes(source: PixelWorkers, count: int, seconds: float, device: str) -> dict[str, Any]:
    """Steps a second of one arrangement: the simulator alone, and the trainer."""
    job = job_settings()
    source.reset(SEEDS[0])
    generator = torch.Generator().manual_seed(SEEDS[0])

    def step() -> None:
        source.step(torch.rand(source.num_envs, 2, generator=generator) * 2 - 1)

    timed(step, seconds / 4)
    calls, elapsed = timed(step, seconds)
    trainer = make_trainer(source, job, device)
    for _ in range(2):
        trainer.step()
    before, spent = trainer.steps, dict(trainer.seconds)
    _, training = timed(trainer.step, seconds)
    source.close()
    return {
        "processes": count,
        "arms": source.num_envs,
        "simulator": source.num_envs * calls / elapsed,
        "trainer": (trainer.steps - before) / training,
        "shares": {k: (v - spent[k]) / training for k, v in trainer.seconds.items()},
    }


def of_gpus(count: int, seconds: float, device: str) -> dict[str, Any]:
    """Steps a second of the job on so many devices."""
    job = job_settings()
    with tempfile.TemporaryDirectory() as folder:
        job |= {
            "backend": "ddp" if count > 1 else "single",
            "processes": PROCESSES_A_GPU if device == "cuda" else 1,
            "arms": ARMS // PROCESSES_A_GPU if device == "cuda" else 4,
            "minutes": seconds / 60,
            "evaluate_on": 1,
            "device": device,
            "run_folder": f"{folder}/run",
        }
        (Path(folder) / "config.yaml").write_text(yaml.safe_dump(job))
        launcher = [sys.executable]
        if count > 1:
            launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        command = [*launcher, str(JOB / "train.py"), f"{folder}/config.yaml"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)
        rows = [
            json.loads(x) for x in (Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        ]
    late = [row for row in rows if row["seconds"] > rows[-1]["seconds"] / 3]
    steps = count * (late[-1]["steps"] - late[0]["steps"])
    return {
        "gpus": count,
        "processes": count * job["processes"],
        "arms": count * job["processes"] * job["arms"],
        "trainer": steps / (late[-1]["seconds"] - late[0]["seconds"]),
    }


def head() -> list[float]:
    """Mean brightness of the first frames out of two processes: the same wherever they run."""
    source = PixelWorkers(2, 2, size=64, gamma=0.95)
    means = source.reset(SEEDS[0]).float().mean(dim=(1, 2, 3)).tolist()
    source.close()
    return [round(value, 2) for value in means]


def main(
    out: Path = Path("studies/results/manipulation_scaling.json"),
    check: bool = False,
    processes: str = "1,2,4,8,16",
    arms: int = ARMS,
    seconds: float = 2.0,
    gpus: str = "1,2",
    job_seconds: float = 6.0,
    device: str = "cuda",
) -> None:
    """Measure on this machine, which must be idle."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=3.0)
        return
    protocol = {"job": job_settings(), "arms": arms, "seconds": seconds, "device": device}
    study = start_study(out, seeds=SEEDS, config=protocol)
    result: dict[str, Any] = {
        **{"cores": os.cpu_count(), "processes": [], "gpus": []},
        "head": head(),
    }
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
    counts, size = [int(x) for x in processes.split(",") if x], job_settings()["size"]
    with ThreadPoolExecutor(max(1, len(counts))) as pool:  # they start together and wait their turn
        sources = list(
            pool.map(lambda n: PixelWorkers(n, arms // n, size=size, gamma=0.95), counts)
        )
    for count, source in zip(counts, sources, strict=True):
        result["processes"].append(of_processes(source, count, seconds, device))
        print(result["processes"][-1], flush=True)
        study.finish(result)  # what is measured stands, should the rest be cut off
    for part in [int(x) for x in gpus.split(",") if x]:
        result["gpus"].append(of_gpus(part, job_seconds, device))
        print(result["gpus"][-1], flush=True)
        study.finish(result)


if __name__ == "__main__":
    typer.run(main)
