# Generated, sha256 b85d2b8fa60eba1b
"""Training script of the job `scaling_study`, tangled from notebooks/34_deepspeed.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import yaml
from pydantic import TypeAdapter
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.losses import ppo_clip_loss, value_loss
from nbkit.masks import aggregate
from nbkit.memory import SHAPES
from nbkit.parallel import Parallel, ParallelConfig, World, connect, join
from nbkit.parallel.flops import flops_per_token, peak_flops
from nbkit.parallel.scoring import attach_scoring
from nbkit.parallel.streams import rank_seed
from nbkit.parallel.traffic import watch
from nbkit.runs.run import Run
from nbkit.text.policies_value import ScalarModel
from nbkit.trainers.grpo_update import grpo_loss
from nbkit.trainers.grpo_variants import variant

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
    how = ParallelConfig(
        backend=config.backend,
        precision=config.precision,
        checkpointing=config.checkpointing,
        compile=config.compile,
        seed=config.seed,
    )
    parallel = connect(how, world)
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


def make_batch(config: Config, rows: int, world: World) -> list[dict[str, Tensor]]:
    """This rank's micro-batches: random ids and what a sampler and a reward would have left."""
    generator = torch.Generator().manual_seed(rank_seed(config.seed, world.rank, "batch"))
    words, width = qwen(config).vocab_size, config.length - 1
    mask = (torch.arange(width) >= config.length // 4).expand(rows, width)
    noise = [torch.randn(rows, width, generator=generator) * mask for _ in range(3)]
    whole = {
        "ids": torch.randint(2, words, (rows, config.length), generator=generator),
        "mask": mask,
        "advantages": noise[0],
        "values": noise[1],
        "returns": noise[2],
    }
    whole = {name: value.to(world.device) for name, value in whole.items()}
    starts = range(0, rows, config.micro_batch)
    return [{n: v[i : i + config.micro_batch] for n, v in whole.items()} for i in starts]


def take_step(made: list[Parallel], batch: list[dict[str, Tensor]], config: Config) -> float:
    """One update by all ranks together; return the loss of the policy."""
    policy, settings = made[0], variant("grpo", kl_coefficient=0.0, aggregation="token-mean")
    tokens, count = policy.total(sum(p["mask"].sum() for p in batch), sum(map(rows_of, batch)))
    seen = torch.zeros((), device=policy.world.device)
    for number, part in enumerate(policy.parts(batch)):
        ids, mask = part["ids"], part["mask"]
        logp = policy.model(input_ids=ids, score=ids)
        if config.stage == "grpo":
            loss = grpo_loss(
                logp,
                logp.detach(),
                part["advantages"],
                mask,
                settings,
                total_tokens=tokens,
                total_sequences=count,
            )
        else:
            terms = ppo_clip_loss(
                logp, logp.detach(), part["advantages"], clip_low=0.2, clip_high=0.2, mask=mask
            )
            loss = aggregate(terms, mask, "token-mean", total_tokens=tokens)
        policy.backward(loss)
        seen += loss.detach()
        for value in made[1:]:
            value.expect(last=number == len(batch) - 1)
            guesses = value.model(ids, torch.ones_like(ids, dtype=torch.bool))[:, :-1].float()
            errors = value_loss(
                guesses, part["returns"], old_values=part["values"], clip=0.2, mask=mask
            )
            value.backward(aggregate(errors, mask, "token-mean", total_tokens=tokens))
    for parallel in made:
        parallel.step(1.0)
    return policy.total(seen)[0]


def rows_of(part: dict[str, Tensor]) -> int:
    """How many sequences a micro-batch has."""
    return len(part["ids"])


def timed_step(made: list[Parallel], batch: list[dict[str, Tensor]], config: Config) -> tuple:
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
    main(TypeAdapter(Config).validate_python(given))
