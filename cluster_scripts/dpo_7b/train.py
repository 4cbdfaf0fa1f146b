# Generated, sha256 7d8ad16c15a20653
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
from transformers import AutoModelForCausalLM, AutoTokenizer

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import EncodedPair, Example, encode_preferences
from nbkit.data.prefetch import hub_name
from nbkit.data.ultrafeedback import load_ultrafeedback
from nbkit.envs.helpful import encode_pairs, preference_pairs
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.parallel.export import write_model
from nbkit.recipes.dpo_recipe import VOCABULARY
from nbkit.runs.run import Run
from nbkit.text.policies_hf import tiny_model
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.dpo import DPOTrainer
from nbkit.trainers.dpo.config import DPOConfig, Kind
from nbkit.trainers.samples import answers


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


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.micro_batch < 2 or config.micro_batch % 2:
        raise ValueError(
            f"micro_batch is {config.micro_batch}; it counts both answers of a pair, so it must be "
            "even"
        )


def main(config: Config) -> dict:
    """Train; return the means of the last tenth of the steps."""
    how = ParallelConfig(
        backend=config.backend,
        precision=config.precision,
        checkpointing=config.checkpointing,
        seed=config.seed,
    )
    parallel = connect(how, join(config.device))
    devices = parallel.world.size
    check(config, devices)
    pairs_a_pass = config.micro_batch // 2
    with Run.start(asdict(config), seeds=(config.seed,), folder=config.run_folder) as run:
        torch.manual_seed(config.seed)
        model, tokenizer, pad_id = load_model(config)
        trainer = DPOTrainer(  # which scores all pairs with the model as it is handed over
            model,
            load_pairs(config, tokenizer),
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
            pad_id=pad_id,
            generator=torch.Generator().manual_seed(config.seed),
            parallel=parallel,
        )
        asked = [Example(pair.prompt_ids, ()) for pair in trainer.pairs[:4]]
        shown = answers(
            parallel,
            TokenizerVocabulary(tokenizer),
            asked,
            max_new_tokens=min(config.max_answer, 128),
        )
        every = config.save_every  # a checkpoint and a look at what the model writes
        trainer.fit(run, save_every=every, phase="update", samples=shown, samples_every=every)
        if run.folder is not None:
            write_model(parallel, run.output)
            if run.is_main:
                tokenizer.save_pretrained(run.output)
        tail = run.history[-max(1, config.steps // 10) :]
        names = ("loss", "margin", "accuracy", "logp_chosen")
        return run.finish({name: sum(row[name] for row in tail) / len(tail) for name in names})


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
