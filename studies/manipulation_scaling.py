"""Steps a second of the trainer from pixels, against environment processes and against GPUs.

Protocol: the settings of the job ``ppo_manipulation`` (read from its rendered ``config.yaml``). A
fixed number of arms, 256, is dealt to ``--processes`` processes. All arrangements stand ready at
once and take turns for ``--rounds`` rounds; in a round each is timed for ``--seconds`` twice: the
simulator alone, with random actions, and the whole trainer, whose first updates, for warming up,
are left out. Then the job itself runs for ``--job-seconds`` on each number of ``--gpus``, by turns
and as often, started as its launch script does, with 8 processes of 32 arms a GPU; its rate is
that of the rows of its log after the first third. All by the clock, so on an idle machine only.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import yaml

from bookkit.authoring.study import start_study
from nbkit.control.policies_pixels import PixelActorCritic
from nbkit.envs.workers import PixelWorkers
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.pixels import PixelTrainer
from studies._arm_runs import picture_figures
from studies._frame import Frame, figures

SCRIPT = "cluster_scripts/ppo_manipulation/train.py"
JOB = (Path(__file__).resolve().parents[1] / SCRIPT).parent
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


class Arrangement:
    """Arms in so many processes, with a trainer of their own; timed once a round."""

    def __init__(self, source: PixelWorkers, processes: int, device: str) -> None:
        job = job_settings()
        self.source, self.processes = source, processes
        self.trainer = make_trainer(source, job, device)
        self.simulator_rates: list[float] = []
        self.trainer_rates: list[float] = []
        self.shares: dict[str, list[float]] = {}
        self.generator = torch.Generator().manual_seed(SEEDS[0])
        for _ in range(2):
            self.trainer.step()

    def step_alone(self) -> None:
        """One step of all arms with random actions."""
        uniform = torch.rand(self.source.num_envs, 2, generator=self.generator)
        self.source.step(uniform * 2 - 1)

    def measure(self, seconds: float) -> None:
        """One round."""
        calls, elapsed = timed(self.step_alone, seconds)
        self.simulator_rates.append(self.source.num_envs * calls / elapsed)
        before, spent = self.trainer.steps, dict(self.trainer.seconds)
        _, elapsed = timed(self.trainer.step, seconds)
        self.trainer_rates.append((self.trainer.steps - before) / elapsed)
        for part, value in self.trainer.seconds.items():
            self.shares.setdefault(part, []).append((value - spent[part]) / elapsed)

    def result(self) -> dict[str, Any]:
        """Steps a second of every round, and what part of the trainer's time each part took."""
        return {
            "processes": self.processes,
            "arms": self.source.num_envs,
            "simulator": self.simulator_rates,
            "trainer": self.trainer_rates,
            "shares": {part: statistics.median(values) for part, values in self.shares.items()},
        }


def job_rate(count: int, seconds: float, device: str) -> dict[str, Any]:
    """Steps a second of the job on so many devices, once."""
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


def head() -> dict[str, float]:
    """Frames out of two processes, and the first update of a trainer on them."""
    os.environ.setdefault("LP_NUM_THREADS", "0")
    source = PixelWorkers(2, 2, size=64, gamma=0.95)
    found = picture_figures(source.reset(SEEDS[0]), "start")
    job = job_settings() | {"size": 64, "body": "small", "width": 16, "steps": 8, "minibatch": 16}
    trainer = make_trainer(source, job, "cpu")
    found |= figures([trainer.step()], METRICS)
    source.close()
    return found


def measure(
    out: Path,
    processes: str = "1,2,4,8,16,32",
    arms: int = ARMS,
    seconds: float = 1.0,
    rounds: int = 3,
    gpus: str = "1,2",
    job_seconds: float = 6.0,
    device: str = "cuda",
) -> None:
    """Measure on this machine, which must be idle."""
    protocol = {"job": job_settings(), "arms": arms, "seconds": seconds, "rounds": rounds}
    study = start_study(out, seeds=SEEDS, config=protocol | {"device": device})
    result: dict[str, Any] = {"cores": os.cpu_count(), "processes": [], "gpus": []}
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
    counts, size = [int(x) for x in processes.split(",") if x], job_settings()["size"]
    with ThreadPoolExecutor(max(1, len(counts))) as pool:  # they start together
        sources = list(
            pool.map(lambda n: PixelWorkers(n, arms // n, size=size, gamma=0.95), counts)
        )
    ready = [Arrangement(s, n, device) for n, s in zip(counts, sources, strict=True)]
    for _ in range(rounds):
        for arrangement in ready:
            arrangement.measure(seconds)
        result["processes"] = [arrangement.result() for arrangement in ready]
        study.finish(result)  # what is measured stands, should the rest be cut off
    print(*result["processes"], sep="\n", flush=True)
    for source in sources:
        source.close()
    for _ in range(rounds):
        for part in [int(x) for x in gpus.split(",") if x]:
            result["gpus"].append(job_rate(part, job_seconds, device))
            print(result["gpus"][-1], flush=True)
            study.finish(result)


METRICS = ("policy_loss", "value_loss", "gradient_norm")
TOLERANCES = {"brightness": 3.0, **dict.fromkeys(METRICS, 0.02)}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
