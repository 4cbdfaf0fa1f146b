# Generated, sha256 b8a49d6da452a4c0
"""Training script of the job `scaling_study`, tangled from notebooks/34_deepspeed.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import math
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import yaml
from pydantic import TypeAdapter
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from transformers import Qwen2Config, Qwen2ForCausalLM

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.memory import SHAPES
from nbkit.parallel import Parallel, ParallelConfig, World, connect, join
from nbkit.parallel.flops import flops_per_token, peak_flops
from nbkit.parallel.scoring import attach_scoring
from nbkit.parallel.streams import rank_seed
from nbkit.parallel.traffic import watch
from nbkit.runs.run import Run
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.grpo import update as grpo_update
from nbkit.trainers.grpo.batch import GroupBatch
from nbkit.trainers.grpo.variants import variant
from nbkit.trainers.rlhf import update as rlhf_update
from nbkit.trainers.rlhf.batch import RLHFBatch
from nbkit.trainers.rlhf.config import RLHFConfig

TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 64,
    "vocab_size": 160,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Config:
    """Policy updates at one number of devices. The defaults are the tiny size of the page."""

    stage: Literal["grpo", "ppo"] = "grpo"  # ppo: with a value model beside the policy
    shape: str = "tiny"  # of the models, whose weights are random: qwen2.5-1.5b, qwen2.5-7b, ...
    backend: Backend = "single"
    precision: Precision = "float32"  # of the forward pass; weights and Adam stay float32
    checkpointing: Checkpointing = "none"
    compile: bool = False
    length: int = 32  # tokens of a sequence, a quarter of them its prompt
    micro_batch: int = 2  # sequences of a forward pass on one device
    rows_per_device: int = 4  # weak scaling: the work of a device stays
    rows: int = 4  # strong scaling: the work of all devices together stays
    steps: int = 2  # timed, of each of the two
    warmup: int = 1
    price_per_gpu_hour: float = 2.5
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


def qwen(config: Config) -> Qwen2Config:
    """The shape by name."""
    if config.shape == "tiny":
        return Qwen2Config(**TINY, use_cache=False)
    shape = SHAPES[config.shape]
    return Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.inner,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=max(4096, config.length),
        use_cache=False,
    )


def learner(model: nn.Module, config: Config, world: World) -> Parallel:
    """A model on its back-end, with its optimiser."""
    parallel = connect(ParallelConfig.of(config), world)
    parallel.prepare(model, lambda some: torch.optim.AdamW(some, lr=1e-6, fused=True))
    return parallel


def learners(config: Config, world: World) -> list[Parallel]:
    """The policy; for PPO the value model too. The same weights on every rank."""
    low = config.backend.startswith("zero") and config.precision == "bfloat16"
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if low else torch.float32)  # DeepSpeed adds float32
    try:
        with world.device:
            policy = attach_scoring(Qwen2ForCausalLM(qwen(config)))
            made = [policy]
            if config.stage == "ppo":
                body = Qwen2ForCausalLM(qwen(config)).model
                made.append(ScalarModel(body, nn.Linear(body.config.hidden_size, 1)))
    finally:
        torch.set_default_dtype(before)
    return [learner(model, config, world) for model in made]


def make_batch(config: Config, rows: int, world: World) -> GroupBatch | RLHFBatch:
    """The batch of all ranks: random ids and what a sampler and a reward would have left."""
    rows, length = rows * world.size, config.length - config.length // 4
    words = qwen(config).vocab_size
    generator = torch.Generator().manual_seed(rank_seed(config.seed, 0, "batch"))
    noise = [torch.randn(rows, length, generator=generator).to(world.device) for _ in range(3)]
    zeros = torch.zeros(rows, length, device=world.device)
    each, no = zeros[:, 0], torch.zeros(rows, dtype=torch.bool, device=world.device)
    ids = torch.randint(2, words, (rows, config.length), generator=generator).to(world.device)
    both = {
        "ids": ids,
        "attention": torch.ones_like(ids, dtype=torch.bool),
        "mask": torch.ones_like(zeros, dtype=torch.bool),
        "advantages": noise[0],
        "logprobs": zeros - math.log(words - 2),  # of ids that are equally likely
        "truncated": no,
    }
    if config.stage == "grpo":
        return GroupBatch(**both, rewards=each, raw_rewards=each, valid=~no)
    return RLHFBatch(
        **both,
        ref_logprobs=both["logprobs"],
        values=noise[1],
        returns=noise[2],
        scores=each,
        rewards=zeros,
    )


def take_step(made: list[Parallel], batch: GroupBatch | RLHFBatch, config: Config) -> float:
    """One update by all ranks together, as the trainers make it; return the loss of the policy."""
    order = torch.Generator().manual_seed(config.seed)
    if isinstance(batch, GroupBatch):
        grpo = variant(
            "grpo", kl_coefficient=0.0, aggregation="token-mean", micro_rows=config.micro_batch
        )
        return grpo_update.update(made[0], batch, None, grpo, order)["loss"]
    ppo = RLHFConfig(epochs=1, minibatches=1, micro_rows=config.micro_batch)
    return rlhf_update.update(made[0], made[1], batch, ppo, order)["policy_loss"]


def timed_step(made: list[Parallel], batch: GroupBatch | RLHFBatch, config: Config) -> tuple:
    """Seconds of the slowest rank, and the loss."""
    start = now(config.device)
    loss = take_step(made, batch, config)
    return made[0].largest(now(config.device) - start), loss


def now(device: str) -> float:
    """The time, once the device has done all."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_gib(policy: Parallel) -> float:
    """The most memory that any rank has held on its GPU; 0 on processors."""
    held = torch.cuda.max_memory_allocated() if policy.world.device.type == "cuda" else 0
    return policy.largest(held) / 2**30


def figures(config: Config, rows: int, seconds: float, talk: dict, made: list[Parallel]) -> dict:
    """What a point of a curve says."""
    rate = rows * config.length / seconds
    shape = qwen(config)
    operations = flops_per_token(shape, config.length)
    if config.stage == "ppo":  # the value model has the policy's body and a head one number wide
        operations += operations - 6 * shape.vocab_size * shape.hidden_size
    gpu = config.device == "cuda"
    peak = peak_flops(torch.cuda.get_device_name()) if gpu else None
    return {
        "rows a device": rows,
        "seconds a step": seconds,
        "tokens a second and device": rate,
        "MFU": None if peak is None else rate * operations / peak,
        "peak GiB": peak_gib(made[0]),
        "communication": talk["communication_s"] / seconds,
        "exposed communication": talk["exposed_s"] / seconds,
        "cost of a million tokens": 1e6 / rate / 3600 * config.price_per_gpu_hour,
    }


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.shape != "tiny" and config.shape not in SHAPES:
        raise ValueError(
            f"shape is {config.shape!r}; it must be tiny or one of {', '.join(SHAPES)}"
        )
    if config.rows % devices:
        raise ValueError(f"rows is {config.rows}; it must be a multiple of {devices} devices")


def main(config: Config) -> dict:
    """Time both curves at this number of devices."""
    world = join(config.device)
    check(config, world.size)
    rows = {"weak": config.rows_per_device, "strong": config.rows // world.size}
    with Run.start(
        asdict(config), seeds=(config.seed,), stage=config.stage, folder=config.run_folder
    ) as run:
        torch.manual_seed(config.seed)
        found = run.resume()
        step, made, result = 0 if found is None else found.step, learners(config, world), {}
        for number, (kind, share) in enumerate(rows.items()):
            batch = make_batch(config, share, world)
            if config.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            for _ in range(config.warmup):
                take_step(made, batch, config)
            while step < (number + 1) * config.steps:
                seconds, loss = timed_step(made, batch, config)
                step += 1
                run.log(step, {f"seconds/{kind}": seconds, "loss": loss})
                run.checkpoint(step, lambda: {}, every=config.steps)
            talk = watch(lambda batch=batch: take_step(made, batch, config), config.device)
            taken = [row[f"seconds/{kind}"] for row in run.history if f"seconds/{kind}" in row]
            result[kind] = figures(config, share, statistics.median(taken), talk, made)
        return run.finish({"devices": world.size, **result})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
