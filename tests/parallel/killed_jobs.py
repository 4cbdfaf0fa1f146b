"""What runs inside processes that are killed while they write."""

import os
import signal
from pathlib import Path

import torch

from nbkit.parallel import ParallelConfig, checkpoint, connect, export
from nbkit.parallel.world import World
from tests.rlvr.small import model


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def prepared(seed=0):
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(model(seed=seed), adamw)
    return parallel


def step(parallel):
    ids = torch.arange(8).view(2, 4) + 2
    parallel.backward(parallel.model(input_ids=ids, labels=ids).loss)
    parallel.step(1.0)


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def second_save(run, where):
    """One save, and death in the midst of the next."""
    parallel = prepared()
    step(parallel)
    parallel.save(Path(run), 1)
    step(parallel)
    if where == "shards":
        os.fsync = die
    elif where == "manifest":
        checkpoint.write_manifest = die
    else:
        Path.rename = die
    parallel.save(Path(run), 2)


def killed_import(hub, back, where):
    """Death instead of a function of the import."""
    setattr(export, where, die)
    export.import_model(Path(hub), Path(back))
