# Generated, sha256 93498eb1207ad4e8
"""Training script of the job `sft_7b`, tangled from notebooks/21_rlhf.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import yaml
from pydantic import TypeAdapter
from transformers import AutoModelForCausalLM, AutoTokenizer

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.data.chat import HH_TEMPLATE, ChatEncoder
from nbkit.data.encode import Example, encode_preferences
from nbkit.data.hh import hh_files, load_hh
from nbkit.data.prefetch import hub_name
from nbkit.envs.helpful import HelpfulVocabulary, preference_pairs
from nbkit.parallel import Parallel, ParallelConfig, connect, join
from nbkit.parallel.checkpoint import SHARDS, read_shards, write_shards
from nbkit.parallel.export import note_model
from nbkit.parallel.streams import GlobalBatches, mine
from nbkit.runs.run import Run
from nbkit.text.policies_hf import tiny_model
from nbkit.trainers.sft import answer_logprobs, schedule, sft_batch


@dataclass(frozen=True)
class Config:
    """Supervised fine-tuning. The defaults are the tiny size that the page runs."""

    model: str = ""  # name or folder; empty: a tiny one with random weights
    data: str = ""  # HH-RLHF: name, folder or file; empty: the language world
    backend: Backend = "single"
    precision: Precision = "float32"  # of the forward pass; weights and Adam stay float32
    checkpointing: Checkpointing = "none"  # others: less memory for activations
    compile: bool = False
    batch: int = 16  # rows of a step, over all devices
    micro_batch: int = 4  # rows of a forward pass on one device
    gradient_clipping: float = 1.0
    steps: int = 4
    learning_rate: float = 1e-3
    warmup: int = 1
    max_prompt: int = 32
    max_answer: int = 24
    save_every: int = 2
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


def load(config: Config) -> tuple:
    """The model, its tokenizer, and the chosen answers as demonstrations; data are found first."""
    files = hh_files(config.data) if config.data else []
    if config.model:
        name, revision = hub_name(config.model)
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        model = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=torch.float32)
    else:
        tokenizer = HelpfulVocabulary().tokenizer()
        model = tiny_model(HelpfulVocabulary(), width=32, layers=2, heads=4, seed=config.seed)
    if config.data:
        loaded = [load_hh(path) for path in files]
        preferences = [p for part in loaded for p in part.preferences]
        print("\n".join(part.report.text() for part in loaded))
    else:
        preferences = [p.preference(i) for i, p in enumerate(preference_pairs(128, seed=1))]
    encoder = ChatEncoder(tokenizer, template=None if tokenizer.chat_template else HH_TEMPLATE)
    encoded = encode_preferences(
        preferences, encoder, max_prompt=config.max_prompt, max_answer=config.max_answer
    )
    print(encoded.report.text())
    return model, tokenizer, [Example(pair.prompt_ids, pair.chosen_ids) for pair in encoded.pairs]


def one_step(parallel: Parallel, rows: list[Example], pad: int, config: Config) -> tuple:
    """One gradient step on a global batch, of which `rows` are this rank's: loss and norm."""
    (total,) = parallel.total(sum(len(row.answer_ids) for row in rows))
    size, seen = config.micro_batch, 0.0
    for part in parallel.parts([rows[i : i + size] for i in range(0, len(rows), size)]):
        ids, attention, counted = sft_batch(part, pad, parallel.world.device)
        loss = -answer_logprobs(parallel.model, ids, attention, counted).sum() / total
        parallel.backward(loss)
        seen += loss.item()
    norm = parallel.step(config.gradient_clipping)
    return parallel.total(seen)[0], norm, total


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.batch % devices:
        raise ValueError(f"batch is {config.batch}; it must be a multiple of {devices} devices")


def main(config: Config) -> dict:
    """Train; write the model as `from_pretrained` reads it."""
    how = ParallelConfig(
        backend=config.backend,
        precision=config.precision,
        checkpointing=config.checkpointing,
        compile=config.compile,
        seed=config.seed,
    )
    parallel = connect(how, join(config.device))
    world = parallel.world
    check(config, world.size)
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, tokenizer, rows = load(config)
        pad = tokenizer.pad_token_id
        pad = tokenizer.eos_token_id if pad is None else pad
        parallel.prepare(
            model.eval(),  # no dropout
            lambda some: torch.optim.AdamW(some, lr=config.learning_rate, betas=(0.9, 0.95)),
        )
        if run.folder is not None:
            note_model(run.folder, parallel.model)  # for `nbkit export`
        order, step = GlobalBatches(len(rows), config.batch, config.seed), 0
        found = run.resume()
        if found is not None:
            order.load_state_dict(found.state["order"])
            read_shards(parallel, found.folder / SHARDS)
            step = found.step
        while step < config.steps:
            rate = schedule(step, config.steps, config.learning_rate, config.warmup)
            for group in parallel.optimiser.param_groups:
                group["lr"] = rate
            own = [rows[i] for i in mine(order.next(), world.rank, world.size)]
            with run.timed("update"):
                loss, norm, tokens = one_step(parallel, own, pad, config)
            step += 1
            row = {"loss": loss, "gradient_norm": norm, "learning_rate": rate, "tokens": tokens}
            run.log(step, row)
            run.checkpoint(
                step,
                lambda: {"order": order.state_dict()},
                every=config.save_every,
                write=lambda folder: write_shards(parallel, folder / SHARDS),
            )
        if run.folder is not None:
            weights = parallel.whole_state()
            if run.is_main:
                kept = {k: v.to(getattr(torch, config.precision)) for k, v in weights.items()}
                model.save_pretrained(run.output, state_dict=kept)
                tokenizer.save_pretrained(run.output)
        return run.finish({"loss": run.history[-1]["loss"], "first loss": run.history[0]["loss"]})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
