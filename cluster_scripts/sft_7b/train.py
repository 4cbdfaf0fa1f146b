# Generated, sha256 3b40a6eed18e2e65
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
from torch.distributed.elastic.multiprocessing.errors import record

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.data.encode import Example
from nbkit.data.language_models import load_language_model, load_tokenizer
from nbkit.envs.helpful import HelpfulVocabulary
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.recipes.helpful_data import find_comparisons, load_comparisons
from nbkit.runs.run import Run
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.jobs import fit_and_write
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
    """The model, its words, and the chosen answers as demonstrations; data are found first."""
    files = find_comparisons(config.data)
    if config.model:
        tokenizer, model = load_tokenizer(config.model), load_language_model(config.model)
    else:
        tokenizer = HelpfulVocabulary().tokenizer()
        model = tiny_model(HelpfulVocabulary(), width=32, layers=2, heads=4, seed=config.seed)
    pairs = load_comparisons(
        files, tokenizer, max_prompt=config.max_prompt, max_answer=config.max_answer
    )
    examples = [Example(pair.prompt_ids, pair.chosen_ids) for pair in pairs]
    return model, TokenizerVocabulary(tokenizer), examples


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.batch_size % devices:
        raise ValueError(
            f"batch_size is {config.batch_size}; it must be a multiple of {devices} devices"
        )


def main(config: Config) -> dict:
    """Train; write the model as `from_pretrained` reads it."""
    parallel = connect(ParallelConfig.of(config), join(config.device))
    check(config, parallel.world.size)
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, words, examples = load(config)
        trainer = SFTTrainer(
            model,
            examples,
            SFTConfig(
                steps=config.steps,
                batch_size=config.batch_size,
                micro_rows=config.micro_batch,
                learning_rate=config.learning_rate,
                warmup=config.warmup,
                max_grad_norm=config.gradient_clipping,
            ),
            pad_id=words.pad_id,
            generator=torch.Generator().manual_seed(config.seed),
            parallel=parallel,
        )
        fit_and_write(
            trainer,
            run,
            words,
            save_every=config.save_every,
            phase="update",
            shown=[example.prompt_ids for example in examples[:4]],
            shown_every=config.save_every,
            max_new_tokens=min(config.max_answer, 128),
            dtype=config.precision,
        )
        return run.finish({"loss": run.history[-1]["loss"], "first loss": run.history[0]["loss"]})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
