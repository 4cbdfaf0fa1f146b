"""torch's DistributedDataParallel on the rows of build 32: two processes, gloo, the same steps."""

import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bookkit.builds.network import network
from bookkit.builds.splitting import Rows, SplitStage, apart, play, whole
from bookkit.builds.verdict import Build


def measured(build: Build, draw: random.Random) -> dict[str, dict[str, Any]]:
    """Train with two processes, and compare with one."""
    (stage,) = build.stages
    assert isinstance(stage, SplitStage)
    steps = int(stage.settings["steps"])
    rows = [stage.rows(draw, step) for step in range(steps)]
    seed = draw.randrange(2**31)
    ends, seconds = trained(rows, stage.settings, seed, stage.ranks)
    away = apart(ends[0], play(network(seed), rows, stage.settings, whole))
    between = max(apart(end, ends[0]) for end in ends)
    return {
        stage.title: {
            "label": f"DDP of torch {torch.__version__}",
            "said": "no curve: what counts is where training ends. After "
            f"{steps} steps its weights are within {away:.1e} of those of one process, those of "
            f"its ranks within {between:.1e} of each other; {sum(seconds):.2f} s of processor "
            f"time for {stage.ranks} processes, without their start",
            "curve": [],
            "processor_seconds": round(sum(seconds), 2),
        }
    }


def trained(
    rows: list[list[Rows]], settings: Mapping[str, Any], seed: int, ranks: int
) -> tuple[list[list[Tensor]], list[float]]:
    """Weights of every rank after training, and its processor seconds.

    Args:
        rows: by step and rank.
        settings: learning_rate, momentum, max_grad_norm.
        seed: of the weights of rank 0, which DDP hands to the others.
        ranks: number of processes.

    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _rank, args=(ranks, rows, dict(settings), seed, folder), nprocs=ranks
        )
        found = [torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)]
    return [one["weights"] for one in found], [one["seconds"] for one in found]


def _rank(
    rank: int,
    ranks: int,
    rows: list[list[Rows]],
    settings: dict[str, Any],
    seed: int,
    folder: str,
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks
    )
    model = DistributedDataParallel(network(seed + rank))
    optimiser = torch.optim.SGD(
        model.parameters(), lr=settings["learning_rate"], momentum=settings["momentum"]
    )
    began = time.process_time()
    for parts in rows:
        own = parts[rank]
        losses = F.cross_entropy(model(own.x).flatten(0, 1), own.y.flatten(), reduction="none")
        count = own.mask.sum()
        dist.all_reduce(count)
        # DDP averages gradients over the ranks, so the sum over all tokens is multiplied back.
        loss = (losses * own.mask.flatten()).sum() * ranks / count
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["max_grad_norm"])
        optimiser.step()
    seconds = time.process_time() - began
    weights = [parameter.detach() for parameter in model.parameters()]
    torch.save({"weights": weights, "seconds": seconds}, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
