# Generated, sha256 d56dea5889051c6e
"""Training script of the job `rlhf_7b`, tangled from notebooks/21_rlhf.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import yaml
from pydantic import TypeAdapter
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from transformers import AutoModelForCausalLM, Qwen2Config

from nbkit.cluster.job import Checkpointing, Precision
from nbkit.data.encode import EncodedPair, Example
from nbkit.data.language_models import load_language_model, load_tokenizer
from nbkit.envs.helpful import HelpfulVocabulary
from nbkit.memory import SHAPES, ModelShape, config_arguments
from nbkit.parallel import Parallel, ParallelConfig, World, connect, join
from nbkit.recipes.helpful_data import find_comparisons, load_comparisons
from nbkit.runs.run import Run
from nbkit.text.adapters import add_adapters
from nbkit.text.scalar_models import ScalarModel
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.jobs import fit_and_write
from nbkit.trainers.loop import Trainer
from nbkit.trainers.reward_model import RewardModelConfig, RewardModelTrainer
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.sft import SFTConfig, SFTTrainer

TINY = ModelShape(2, 32, 64, 2, 1, 16, 160, True, True)


@dataclass(frozen=True)
class Config:
    """One stage of RLHF. The defaults are the tiny size that the page runs."""

    stage: Literal["sft", "reward", "ppo"] = "sft"
    model: str = "shape:tiny"  # a name or folder; "shape:NAME": that size with random weights
    data: str = ""  # HH-RLHF: name, folder or file; "": the language world; "random": random ids
    backend: Literal["single", "fsdp2"] = "single"
    precision: Precision = "float32"
    checkpointing: Checkpointing = "none"  # others: less memory for activations
    adapters: int = 0  # rank of adapters on query and value maps; 0: all weights learn
    batch_size: int = 16  # rows of a step, over all devices
    micro_batch: int = 8  # rows of a forward pass on one device
    steps: int = 3
    learning_rate: float = 1e-3
    value_learning_rate: float = 1e-3
    warmup: int = 0
    max_prompt: int = 32
    max_new_tokens: int = 24
    epochs: int = 1
    minibatches: int = 2
    kl_coefficient: float = 0.05
    kl_target: float = 0.0  # above 0: the coefficient adapts
    missing_eos_penalty: float = 1.0
    lam: float = 0.95
    save_every: int = 2
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


def shape_of(model: str) -> ModelShape:
    """The size that `shape:NAME` names."""
    name = model.removeprefix("shape:")
    return TINY if name == "tiny" else SHAPES[name]


def random_pairs(config: Config) -> list[EncodedPair]:
    """Pairs of the largest lengths made of random ids, to measure memory and speed with."""
    generator = torch.Generator().manual_seed(config.seed)
    words = shape_of(config.model).vocabulary

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, words, (length,), generator=generator).tolist())

    return [
        EncodedPair(ids(config.max_prompt), ids(config.max_new_tokens), ids(config.max_new_tokens))
        for _ in range(4 * config.batch_size)
    ]


def load_data(config: Config) -> tuple[list[EncodedPair], TokenizerVocabulary]:
    """Encoded pairs and the vocabulary; what was left out, and why, is printed."""
    files = [] if config.data == "random" else find_comparisons(config.data)
    shaped = config.model.startswith("shape:")
    tokenizer = HelpfulVocabulary().tokenizer() if shaped else load_tokenizer(config.model)
    if config.data == "random":
        return random_pairs(config), TokenizerVocabulary(tokenizer)
    pairs = load_comparisons(
        files, tokenizer, max_prompt=config.max_prompt, max_answer=config.max_new_tokens
    )
    return pairs, TokenizerVocabulary(tokenizer)


def language_model(config: Config, folder: Path | str, *, learns: bool):
    """A causal model from a folder or by name, or of a known shape with random weights.

    Weights that AdamW steps are float32; those that only run have the precision of the run.
    """
    whole = learns and not config.adapters
    dtype = torch.float32 if whole else getattr(torch, config.precision)
    if not config.model.startswith("shape:") or folder != config.model:
        return load_language_model(str(folder), dtype=dtype)
    shape = Qwen2Config(
        **config_arguments(shape_of(folder)),
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.device(config.device):
        return AutoModelForCausalLM.from_config(shape, dtype=dtype).eval()


def scalar_model(config: Config, folder: Path | str, *, learns: bool) -> ScalarModel:
    """A reward or value model from a folder, or on a language model's body."""
    if isinstance(folder, Path) and (folder / "scalar_head.safetensors").exists():
        whole = learns and not config.adapters
        dtype = torch.float32 if whole else getattr(torch, config.precision)
        return ScalarModel.from_pretrained(folder, dtype=dtype).eval()
    model = language_model(config, folder, learns=learns)
    return ScalarModel(model.base_model, _new_head(model.config.hidden_size, model.device))


def _new_head(width: int, device) -> nn.Linear:
    head = nn.Linear(width, 1, device=device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def back_end(config: Config, world: World) -> Parallel:
    """How the models of this run are spread over the devices."""
    return connect(ParallelConfig.of(config), world)


def adapted(model: nn.Module, config: Config):
    """A model that learns: whole, or by adapters if they are asked for."""
    if config.adapters:
        add_adapters(model, config.adapters, seed=config.seed)
        if isinstance(model, ScalarModel):
            model.head.requires_grad_(True)
    return model


def finish(
    trainer: Trainer, run: Run, config: Config, words: TokenizerVocabulary, shown=()
) -> None:
    """Train in the run to the end, and write a model that has learned from real pairs."""
    if config.data == "random":
        trainer.fit(run, save_every=config.save_every)
        return
    fit_and_write(
        trainer,
        run,
        words,
        save_every=config.save_every,
        shown=shown,
        max_new_tokens=config.max_new_tokens,
        dtype=config.precision,
    )


def steps_of(config: Config) -> dict:
    """The steps of a supervised stage."""
    return {
        "steps": config.steps,
        "batch_size": config.batch_size,
        "learning_rate": config.learning_rate,
        "warmup": config.warmup,
    }


def source(config: Config) -> torch.Generator:
    """Of the order of the data and of the samples; the same on every rank."""
    return torch.Generator().manual_seed(config.seed)


def run_sft(run: Run, config: Config, world: World) -> dict:
    """Stage 1: the chosen answers as demonstrations."""
    pairs, words = load_data(config)
    trainer = SFTTrainer(
        adapted(language_model(config, config.model, learns=True), config),
        [Example(pair.prompt_ids, pair.chosen_ids) for pair in pairs],
        SFTConfig(**steps_of(config), micro_rows=config.micro_batch),
        pad_id=words.pad_id,
        generator=source(config),
        parallel=back_end(config, world),
    )
    finish(trainer, run, config, words, [pair.prompt_ids for pair in pairs[:4]])
    return {"loss": trainer.history[-1]["loss"]}


def run_reward(run: Run, config: Config, world: World) -> dict:
    """Stage 2: a scalar head on the model of stage 1 learns from the comparisons."""
    pairs, words = load_data(config)
    start = config.model if config.data == "random" else run.input("sft")
    trainer = RewardModelTrainer(
        adapted(scalar_model(config, start, learns=True), config),
        pairs[config.batch_size :],
        RewardModelConfig(**steps_of(config), micro_pairs=config.micro_batch),
        pad_id=words.pad_id,
        generator=source(config),
        held_out=pairs[: config.batch_size],
        every=config.steps,
        parallel=back_end(config, world),
    )
    finish(trainer, run, config, words)
    last = trainer.history[-1]
    return {"loss": last["loss"], "held-out accuracy": last["held_out/accuracy"]}


def run_ppo(run: Run, config: Config, world: World) -> dict:
    """Stage 3: the policy against the reward model, held by the reference."""
    pairs, words = load_data(config)
    first, second = (
        (config.model, config.model)
        if config.data == "random"
        else (run.input("sft"), run.input("reward"))
    )
    reference = None  # with adapters: the policy without them
    if not config.adapters:
        reference = language_model(config, first, learns=False)
    trainer = RLHFTrainer(
        adapted(language_model(config, first, learns=True), config),
        words,
        [Example(prompt, ()) for prompt in sorted({pair.prompt_ids for pair in pairs})],
        scalar_model(config, second, learns=False),
        RLHFConfig(
            updates=config.steps,
            prompts=config.batch_size,
            max_new_tokens=config.max_new_tokens,
            kl_coefficient=config.kl_coefficient,
            kl_target=config.kl_target or None,
            lam=config.lam,
            epochs=config.epochs,
            minibatches=config.minibatches,
            missing_eos_penalty=config.missing_eos_penalty,
            learning_rate=config.learning_rate,
            value_learning_rate=config.value_learning_rate,
            weight_decay=0.01,
            micro_rows=config.micro_batch,
            sampler_dtype="bfloat16" if config.precision == "bfloat16" else None,
            release_engine=True,
        ),
        reference=reference,
        value=adapted(scalar_model(config, second, learns=True), config),
        generator=source(config),
        parallel=back_end(config, world),
    )
    finish(trainer, run, config, words)
    return {name: trainer.history[-1][name] for name in ("reward", "kl", "length")}


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.adapters and config.backend != "single":
        raise ValueError("adapters: they are for one device; use backend single, or adapters: 0")
    minibatches = config.minibatches if config.stage == "ppo" else 1
    if config.batch_size % (devices * minibatches):
        raise ValueError(
            f"batch_size is {config.batch_size}; it must be a multiple of {devices} devices times "
            f"{minibatches} minibatches"
        )


def main(config: Config) -> dict:
    """Run one stage; the next one starts from its output folder."""
    stages = {"sft": run_sft, "reward": run_reward, "ppo": run_ppo}
    world = join(config.device)
    check(config, world.size)
    torch.manual_seed(config.seed)
    torch.set_float32_matmul_precision("high")
    with Run.start(
        asdict(config), seeds=(config.seed,), stage=config.stage, folder=config.run_folder
    ) as run:
        return run.finish(stages[config.stage](run, config, world))


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
