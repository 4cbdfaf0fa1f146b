# Generated, sha256 86a8ec2ee8f6dd78
"""Training script of the job `dpo_7b`, tangled from notebooks/22_dpo.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import yaml
from pydantic import TypeAdapter
from transformers import AutoModelForCausalLM, AutoTokenizer

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import EncodedPair, encode_preferences
from nbkit.data.prefetch import hub_name
from nbkit.data.ultrafeedback import load_ultrafeedback
from nbkit.envs.helpful import encode_pairs, preference_pairs
from nbkit.parallel import Parallel, ParallelConfig, connect, join
from nbkit.parallel.checkpoint import SHARDS, read_shards, write_shards
from nbkit.parallel.counts import gather_objects
from nbkit.parallel.export import note_model
from nbkit.recipes.dpo_recipe import VOCABULARY
from nbkit.runs.run import Run
from nbkit.text.policies_hf import tiny_model
from nbkit.trainers.dpo_batch import PairScores, pair_batch, pair_scores
from nbkit.trainers.dpo_config import DPOConfig, Kind
from nbkit.trainers.dpo_loss import dpo_loss, pair_metrics


@dataclass(frozen=True)
class Config:
    """One run. The defaults are the tiny size of the page; job.yaml holds Zephyr's numbers."""

    model: str = ""  # folder or name of a model after SFT; empty: a tiny fresh one
    data: str = ""  # UltraFeedback as JSON lines; empty: pairs of the chapter's world
    backend: Backend = "single"
    precision: Precision = "float32"  # of the forward pass; weights and Adam stay float32
    checkpointing: Checkpointing = "none"  # "full" recomputes activations in the backward pass
    micro_batch: int = 8  # sequences a device and forward pass, two a pair
    accumulation: int = 2
    steps: int = 4
    warmup: int = 1
    learning_rate: float = 1e-3
    gradient_clipping: float = 1.0
    kind: Kind = "sigmoid"
    beta: float = 0.1
    max_prompt: int = 512
    max_answer: int = 512
    save_every: int = 2
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


def load_model(config: Config) -> tuple:
    """A model without dropout, its tokenizer, and the id of the padding."""
    if config.model:
        name, revision = hub_name(config.model)
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        model = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=torch.float32)
    else:
        tokenizer = VOCABULARY.tokenizer()
        model = tiny_model(VOCABULARY, width=32, layers=2, heads=4, seed=config.seed)
    pad_id = tokenizer.pad_token_id
    return model.eval(), tokenizer, tokenizer.eos_token_id if pad_id is None else pad_id


def load_pairs(config: Config, tokenizer) -> list[EncodedPair]:
    """Pairs as ids; what is left out is printed with its reason and its count."""
    if not config.data:
        return encode_pairs(preference_pairs(64, seed=config.seed), VOCABULARY)
    loaded = load_ultrafeedback(Path(config.data), seed=config.seed)
    encoded = encode_preferences(
        loaded.preferences,
        ChatEncoder(tokenizer),
        max_prompt=config.max_prompt,
        max_answer=config.max_answer,
    )
    print(loaded.report.text(), encoded.report.text(), sep="\n")
    return encoded.pairs


@torch.no_grad()
def score_all(parallel: Parallel, pairs: list[EncodedPair], pad_id: int, size: int) -> PairScores:
    """The reference's scores of all pairs, on the CPU; each process makes its share."""
    world = parallel.world
    share = math.ceil(len(pairs) / world.size)
    mine = [pairs[(world.rank + world.size * i) % len(pairs)] for i in range(share)]
    parts = [
        pair_scores(parallel.model, pair_batch(mine[i : i + size], pad_id, world.device))
        for i in range(0, share, size)  # as many passes on every rank: each is collective
    ]
    local = [torch.cat(field).float().cpu() for field in zip(*parts, strict=True)]
    every = gather_objects(local)
    return PairScores(
        *(torch.stack(fields, 1).flatten()[: len(pairs)] for fields in zip(*every, strict=True))
    )


def rows_of(step: int, count: int, batch: int, seed: int) -> list[int]:
    """Which pairs a step learns from: a function of seed and step alone, one order an epoch."""
    orders: dict[int, torch.Tensor] = {}
    rows = []
    for position in range(step * batch, (step + 1) * batch):
        epoch, place = divmod(position, count)
        if epoch not in orders:
            source = torch.Generator().manual_seed(9973 * seed + epoch)
            orders[epoch] = torch.randperm(count, generator=source)
        rows.append(int(orders[epoch][place]))
    return rows


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.micro_batch < 2 or config.micro_batch % 2:
        raise ValueError(
            f"micro_batch is {config.micro_batch}; it counts both answers of a pair, so it must be "
            "even"
        )


def main(config: Config) -> dict:
    """Train; return the means of the last tenth of the steps."""
    settings = DPOConfig(kind=config.kind, beta=config.beta)
    spread = ParallelConfig(
        backend=config.backend,
        precision=config.precision,
        checkpointing=config.checkpointing,
        seed=config.seed,
    )
    parallel = connect(spread, join(config.device))
    world = parallel.world
    check(config, world.size)
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, tokenizer, pad_id = load_model(config)
        pairs = load_pairs(config, tokenizer)
        settings_of_adam = {"lr": config.learning_rate, "weight_decay": 0.0}
        parallel.prepare(model, lambda some: torch.optim.AdamW(some, **settings_of_adam))
        if run.folder is not None:
            note_model(run.folder, parallel.model)  # for `nbkit export`
        size = config.micro_batch // 2
        batch = size * config.accumulation * world.size
        # Before a checkpoint is read: the reference is the model as it was handed over.
        reference = score_all(parallel, pairs, pad_id, size)
        found, step = run.resume(), 0
        if found is not None:
            read_shards(parallel, found.folder / SHARDS)
            step = found.step
        while step < config.steps:
            warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
            left = 1 - max(0, step - config.warmup) / max(1, config.steps - config.warmup)
            for group in parallel.optimiser.param_groups:
                group["lr"] = config.learning_rate * warm * left
            rows = rows_of(step, len(pairs), batch, config.seed)[world.rank :: world.size]
            seen, loss_sum = [], 0.0
            for part in parallel.parts([rows[i : i + size] for i in range(0, len(rows), size)]):
                with run.timed("update"):
                    stacked = pair_batch([pairs[row] for row in part], pad_id, world.device)
                    scores = pair_scores(parallel.model, stacked)
                    fixed = reference.rows(torch.tensor(part))
                    fixed = PairScores(*(field.to(world.device) for field in fixed))
                    loss = dpo_loss(scores, fixed, settings).sum() / batch
                    parallel.backward(loss)
                loss_sum += loss.item()
                seen.append(pair_metrics(scores, fixed, config.beta))
            norm = parallel.step(config.gradient_clipping)
            step += 1
            sums = parallel.total(*(sum(m[name] for m in seen) / len(seen) for name in seen[0]))
            means = {name: value / world.size for name, value in zip(seen[0], sums, strict=True)}
            (loss_sum,) = parallel.total(loss_sum)
            run.log(step, {"loss": loss_sum, "gradient_norm": norm, **means})
            run.checkpoint(
                step,
                write=lambda folder: write_shards(parallel, folder / SHARDS),
                every=config.save_every,
            )
        if run.folder is not None:
            weights = parallel.whole_state()
            if run.is_main:
                model.save_pretrained(run.output, state_dict=weights)
                tokenizer.save_pretrained(run.output)
        tail = run.history[-max(1, config.steps // 10) :]
        names = ("loss", "margin", "accuracy", "logp_chosen")
        return run.finish({name: sum(row[name] for row in tail) / len(tail) for name in names})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
