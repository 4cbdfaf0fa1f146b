"""A tiny data-parallel training script in the form of a tangled one, for the tests of launching.

tiny_train.py CONFIG.yaml: linear regression by DDP over gloo, with momentum, on batches drawn from
the global generator, so that weights, optimiser and random state all matter to a resumed run.
"""

import hashlib
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import yaml
from pydantic import TypeAdapter

from nbkit.runs.run import Run


@dataclass(frozen=True)
class Config:
    stage: str = ""
    backend: str = "single"
    steps: int = 8
    seconds_a_step: float = 0.0
    save_every: int = 3
    learning_rate: float = 0.05
    seed: int = 0
    stop_at: int = 0  # this process asks itself to stop at this step, as Slurm would
    crash_at: int = 0
    run_folder: str = ""
    note: str = ""
    model: str = ""
    data: str = ""


def digest(model: torch.nn.Module) -> str:
    raw = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(raw).hexdigest()


def main(config: Config) -> dict:
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(config.seed)
    inner = torch.nn.Linear(4, 1)
    model = inner
    if dist.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(inner)
    optimiser = torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9)
    settings = asdict(config) | {"stop_at": 0, "crash_at": 0}
    with Run.start(
        settings, seeds=(config.seed,), stage=config.stage, folder=config.run_folder
    ) as run:
        torch.manual_seed(config.seed + run.rank)
        found, step = run.resume(), 0
        if found is not None:
            inner.load_state_dict(found.state["model"])
            optimiser.load_state_dict(found.state["optimiser"])
            step = found.step
        while step < config.steps:
            inputs = torch.randn(16, 4)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            time.sleep(config.seconds_a_step)
            run.log(step, {"loss": loss.item()})
            if step == config.crash_at:
                os.kill(os.getpid(), 9)
            if step == config.stop_at:
                os.kill(os.getpid(), 10)
            run.checkpoint(
                step,
                lambda: {"model": inner.state_dict(), "optimiser": optimiser.state_dict()},
                every=config.save_every,
            )
        if run.folder is not None and run.is_main:
            torch.save(inner.state_dict(), run.output / "model.pt")
        return run.finish({"loss": run.history[-1]["loss"], "weights": digest(inner)})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
    if dist.is_initialized():
        dist.destroy_process_group()
