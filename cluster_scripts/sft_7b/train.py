# Generated, sha256 224ce065842c2590
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
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.parallel.export import write_model
from nbkit.runs.run import Run
from nbkit.text.policies_hf import tiny_model
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.samples import answers
from nbkit.trainers.sft import SFTConfig, SFTTrainer


@dataclass(frozen=True)
class Config:
    """Supervised fine-tuning. The defaults are the tiny size that the page runs."""

    model: str = ""  # name or folder; empty: a tiny one with random weights
    data: str = ""  # HH-RLHF: name, folder or file; empty: the language world
    backend: Backend = "single"
    precision: Precision = "float32"  # of the forward pass; weights and Adam stay float32
    checkpointing: Checkpointing = "none"  # others: less memory for activations
    compile: bool = False
    batch_size: int = 16  # rows of a step, over all devices
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


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.batch_size % devices:
        raise ValueError(
            f"batch_size is {config.batch_size}; it must be a multiple of {devices} devices"
        )


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
    check(config, parallel.world.size)
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, tokenizer, examples = load(config)
        pad_id = tokenizer.pad_token_id
        trainer = SFTTrainer(
            model.eval(),  # no dropout
            examples,
            SFTConfig(
                steps=config.steps,
                batch_size=config.batch_size,
                micro_rows=config.micro_batch,
                learning_rate=config.learning_rate,
                warmup=config.warmup,
                max_grad_norm=config.gradient_clipping,
            ),
            pad_id=tokenizer.eos_token_id if pad_id is None else pad_id,
            generator=torch.Generator().manual_seed(config.seed),
            parallel=parallel,
        )
        asked = [Example(example.prompt_ids, ()) for example in examples[:4]]
        shown = answers(
            parallel,
            TokenizerVocabulary(tokenizer),
            asked,
            max_new_tokens=min(config.max_answer, 128),
        )
        every = config.save_every  # a checkpoint and a look at what the model writes
        trainer.fit(run, save_every=every, phase="update", samples=shown, samples_every=every)
        if run.folder is not None:
            write_model(parallel, run.output, dtype=config.precision)
            if run.is_main:
                tokenizer.save_pretrained(run.output)
        return run.finish({"loss": run.history[-1]["loss"], "first loss": run.history[0]["loss"]})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
