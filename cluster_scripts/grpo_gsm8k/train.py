# Generated, sha256 2fffa30b9f4ece5f
"""Training script of the job `grpo_gsm8k`, tangled from notebooks/24_grpo.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from pydantic import TypeAdapter
from torch.distributed.elastic.multiprocessing.errors import record

from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.data.encode import Example
from nbkit.data.gsm8k import WordProblem, load_gsm8k_split
from nbkit.data.language_models import load_language_model, load_tokenizer
from nbkit.envs.word_problems import StoryVocabulary, draw_stories, story_corpus
from nbkit.generate import answer, clear
from nbkit.parallel import Parallel, ParallelConfig, connect, join
from nbkit.parallel.export import write_model
from nbkit.rewards import simple_grpo
from nbkit.rewards.compose import Composed
from nbkit.runs.once import once
from nbkit.runs.run import Run
from nbkit.text.chat_vocabulary import ChatVocabulary
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import VARIANTS, GRPOTrainer, variant
from nbkit.trainers.sft import SFTConfig, SFTTrainer


@dataclass(frozen=True)
class Config:
    """One stage: "sft" teaches the form, "grpo" learns from the verifier."""

    stage: Literal["sft", "grpo"] = "sft"
    model: str = ""  # a name or folder; empty: a small model from scratch, on generated problems
    data: str = ""  # GSM8K: name on the hub, or folder with its files; empty: generated problems
    backend: Backend = "single"  # others: every device samples and learns its share
    width: int = 64  # of the model from scratch
    layers: int = 2
    heads: int = 4
    lessons: int = 20  # supervised steps of the model from scratch
    lesson_batch: int = 16
    lesson_rate: float = 3e-3
    slip: float = 0.7  # planted share of wrong lessons
    algorithm: str = "dr_grpo"
    steps: int = 2  # of GRPO
    prompts: int = 4  # a step and device
    group_size: int = 4
    max_new_tokens: int = 64
    temperature: float = 1.0
    learning_rate: float = 1e-4
    kl_coefficient: float = 0.0
    micro_tokens: int = 4096  # of one forward pass
    precision: Precision = "float32"  # of sampling and passes; what Adam steps stays float32
    checkpointing: Checkpointing = "none"  # others: less memory for activations
    evaluate_every: int = 2
    evaluate_on: int = 32  # held-out problems
    save_every: int = 10
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


SYSTEM = (
    "You solve the user's problem. First think it through between <think> and </think>, then give "
    "the final number between <answer> and </answer>, and nothing else."
)


def starting_point(config: Config, run: Run) -> tuple[Any, Any]:
    """The model of a stage, on the CPU, and its vocabulary."""
    if not config.model:
        vocabulary = StoryVocabulary()
        sizes = {"width": config.width, "layers": config.layers, "heads": config.heads}
        model = tiny_model(vocabulary, max_length=512, rope_base=100.0, seed=config.seed, **sizes)
        if config.stage == "grpo":
            state = torch.load(run.input("sft") / "model.pt", weights_only=True)
            model.load_state_dict(state)
        return model, vocabulary
    tokenizer, model = load_tokenizer(config.model), load_language_model(config.model)
    return model, ChatVocabulary(tokenizer, model.generation_config, system=SYSTEM)


def problems_of(config: Config) -> tuple[list[WordProblem], list[WordProblem]]:
    """Problems to train on, and held-out ones."""
    if config.data:
        train, test = (load_gsm8k_split(config.data, side) for side in ("train", "test"))
        return train, test[: config.evaluate_on]
    ours = draw_stories(20_000 if config.steps > 10 else 400, seed=config.seed)
    theirs = draw_stories(config.evaluate_on, seed=10_000 + config.seed, held_out=True)
    return [s.problem for s in ours], [s.problem for s in theirs]


def reward_fn(problems: Sequence[WordProblem], completions: Sequence[Any]) -> list[Composed]:
    """SimpleGRPO's two rewards; a completion that was cut off earns neither."""
    return [
        Composed(-2.0, {"correct": 0.0, "format": 0.0})
        if completion.truncated
        else simple_grpo.reward(completion.text, problem.answer)
        for problem, completion in zip(problems, completions, strict=True)
    ]


def held_out_accuracy(model: Any, vocabulary: Any, problems: Sequence[Any], config: Config) -> dict:
    """Answer each problem once by sampling and once greedily."""
    found = {}
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        made = answer(
            model,
            vocabulary,
            problems,
            max_new_tokens=config.max_new_tokens,
            temperature=temperature,
            seeds=config.seed,
            max_batch=128,
            dtype=torch.bfloat16 if config.precision == "bfloat16" else None,
        )
        texts = [vocabulary.decode(row) for row in made.lists()]
        parts = [
            simple_grpo.reward(text, problem.answer).parts
            for problem, text in zip(problems, texts, strict=True)
        ]
        for part in ("correct", "format"):
            found[f"held out/{part}, {name}"] = sum(p[part] for p in parts) / len(parts)
        found[f"held out/length, {name}"] = made.lengths.float().mean().item()
    clear(model)  # the sampler's memory makes room for the update
    return found


def back_end(config: Config, *, precision: Precision) -> Parallel:
    """How the model is spread over the devices."""
    return connect(ParallelConfig.of(config, precision=precision), join(config.device))


def teach(config: Config, run: Run) -> dict:
    """Supervised steps on generated stories, some of them wrong on purpose; in float32."""
    model, vocabulary = starting_point(config, run)
    examples = [
        Example(
            tuple(vocabulary.encode(problem.prompt)),
            (*vocabulary.encode(text), vocabulary.eos_id),
        )
        for problem, text in story_corpus(
            draw_stories(max(200, min(200_000, 16 * config.lessons)), seed=config.seed),
            slip=config.slip,
            seed=config.seed,
        )
    ]
    trainer = SFTTrainer(
        model,
        examples,
        SFTConfig(
            steps=config.lessons,
            batch_size=config.lesson_batch,
            learning_rate=config.lesson_rate,
        ),
        pad_id=vocabulary.pad_id,
        generator=torch.Generator().manual_seed(config.seed),
        parallel=back_end(config, precision="float32"),
    )
    trainer.fit(run, save_every=config.save_every)
    _, held_out = problems_of(config)
    with trainer.parallel.gathered() as whole:
        found = held_out_accuracy(whole, vocabulary, held_out, config)
    if run.folder is not None:
        weights = trainer.parallel.whole_state()  # every rank takes part
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # one tensor, two names
        if run.is_main:
            torch.save(weights, run.output / "model.pt")
    return run.finish(found)


def learn(config: Config, run: Run) -> dict:
    """GRPO against the verifier."""
    model, vocabulary = starting_point(config, run)
    parameters = sum(p.numel() for p in model.parameters())
    problems, held_out = problems_of(config)
    parallel = back_end(config, precision=config.precision)
    low = config.precision == "bfloat16"
    settings = variant(
        config.algorithm,
        updates=config.steps,
        prompts=config.prompts * parallel.world.size,
        group_size=config.group_size,
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        learning_rate=config.learning_rate,
        kl_coefficient=config.kl_coefficient,
        micro_tokens=config.micro_tokens,
        sampler_dtype="bfloat16" if low else None,
        release_engine=low,
    )
    reference = starting_point(config, run)[0] if config.kl_coefficient else None
    generator = torch.Generator(config.device).manual_seed(config.seed)
    trainer = GRPOTrainer(
        model,
        vocabulary,
        problems,
        reward_fn,
        settings,
        reference=reference,
        generator=generator,
        parallel=parallel,
    )

    def accuracy() -> dict:
        with parallel.gathered() as whole:
            return held_out_accuracy(whole, vocabulary, held_out, config)

    before = once(run, "before", accuracy)  # once: a resumed model is no longer that one
    trainer.fit(
        run,
        save_every=config.save_every,
        measure=accuracy,
        measure_every=config.evaluate_every,
    )
    if run.folder is not None and config.model:
        write_model(parallel, run.output)
        if run.is_main:
            vocabulary.tokenizer.save_pretrained(run.output)
    elif run.folder is not None:
        weights = parallel.whole_state()  # every rank takes part
        if run.is_main:
            torch.save(weights, run.output / "model.pt")
    seen = [row for row in run.history if "held out/correct, sampled" in row]
    curve = {
        name: [row[name] for row in seen]
        for name in ("step", "total_tokens", *(key for key in seen[-1] if "held out" in key))
    }
    result = {
        "parameters": parameters,
        "before": before,
        "after": {key: seen[-1][key] for key in before},
        "curve": curve,
        "training": {
            name: [round(row[name], 4) for row in run.history]
            for name in ("accuracy", "length", "entropy", "silent_groups", "seconds/step")
        },
        "completions_per_step": config.prompts * config.group_size * run.world_size,
    }
    if config.device != "cpu":
        result["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    return run.finish(result)


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.algorithm not in VARIANTS:
        raise ValueError(f"algorithm is {config.algorithm!r}; it must be one of {list(VARIANTS)}")
    if config.stage == "sft" and config.model:
        raise ValueError("stage 'sft' is for the model from scratch; begin with stage 'grpo'")


def main(config: Config) -> dict:
    """Run one stage; return its result."""
    check(config, join(config.device).size)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)
    with Run.start(
        asdict(config), seeds=(config.seed,), stage=config.stage, folder=config.run_folder
    ) as run:
        return teach(config, run) if config.stage == "sft" else learn(config, run)


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
