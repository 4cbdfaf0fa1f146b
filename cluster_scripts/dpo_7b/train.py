# Generated, sha256 a44645319f670de0
"""Training script of the job `dpo_7b`, tangled from notebooks/22_dpo.md.

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
from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import EncodedPair, encode_preferences
from nbkit.data.language_models import load_language_model, load_tokenizer
from nbkit.data.ultrafeedback import load_ultrafeedback
from nbkit.envs.helpful import encode_pairs, preference_pairs
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.recipes.dpo_recipe import VOCABULARY
from nbkit.runs.run import Run
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.dpo import DPOTrainer
from nbkit.trainers.dpo.config import DPOConfig, Kind
from nbkit.trainers.jobs import fit_and_write


@dataclass(frozen=True)
class Config:
    """One run. The defaults are the tiny size of the page; job.yaml holds Zephyr's numbers."""

    model: str = ""  # folder or name of a model after SFT; empty: a tiny fresh one
    data: str = ""  # UltraFeedback: name, folder or file; empty: pairs of the chapter's world
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
    """A model without dropout, and its words."""
    if config.model:
        tokenizer, model = load_tokenizer(config.model), load_language_model(config.model)
    else:
        tokenizer = VOCABULARY.tokenizer()
        model = tiny_model(VOCABULARY, width=32, layers=2, heads=4, seed=config.seed)
    return model, TokenizerVocabulary(tokenizer)


def load_pairs(config: Config, tokenizer) -> list[EncodedPair]:
    """Pairs as ids; what is left out is printed with its reason and its count."""
    if not config.data:
        return encode_pairs(preference_pairs(64, seed=config.seed), VOCABULARY)
    loaded = load_ultrafeedback(config.data, seed=config.seed)
    encoded = encode_preferences(
        loaded.preferences,
        ChatEncoder(tokenizer),
        max_prompt=config.max_prompt,
        max_answer=config.max_answer,
    )
    print(loaded.report.text(), encoded.report.text(), sep="\n")
    return encoded.pairs


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.micro_batch < 2 or config.micro_batch % 2:
        raise ValueError(
            f"micro_batch is {config.micro_batch}; it counts both answers of a pair, so it must be "
            "even"
        )


def main(config: Config) -> dict:
    """Train; return the means of the last tenth of the steps."""
    parallel = connect(ParallelConfig.of(config), join(config.device))
    devices = parallel.world.size
    check(config, devices)
    pairs_a_pass = config.micro_batch // 2
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, words = load_model(config)
        trainer = DPOTrainer(  # which scores all pairs with the model as it is handed over
            model,
            load_pairs(config, words.tokenizer),
            DPOConfig(
                kind=config.kind,
                beta=config.beta,
                steps=config.steps,
                batch_size=pairs_a_pass * config.accumulation * devices,
                micro_pairs=pairs_a_pass,
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
            shown=[pair.prompt_ids for pair in trainer.pairs[:4]],
            shown_every=config.save_every,
            max_new_tokens=min(config.max_answer, 128),
        )
        tail = run.history[-max(1, config.steps // 10) :]
        names = ("loss", "margin", "accuracy", "logp_chosen")
        return run.finish({name: sum(row[name] for row in tail) / len(tail) for name in names})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
