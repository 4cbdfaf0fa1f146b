"""What the study of GSM8K runs: a supervised start, GRPO on it, and the measure of both."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nbkit.data.encode import Example
from nbkit.data.gsm8k import WordProblem, load_gsm8k
from nbkit.generate import clear, generate
from nbkit.parallel import Parallel, ParallelConfig, World, connect
from nbkit.rewards import simple_grpo
from nbkit.rewards.compose import Composed
from nbkit.trainers import sft
from nbkit.trainers.grpo import GRPOTrainer, variant
from nbkit.trainers.sft import SFTConfig
from nbkit.trainers.watch import bad_batches, save_refused
from studies._shares import solved_by

VARIABLE = "NBKIT_GSM8K"  # a folder with train.jsonl and test.jsonl
LESSONS = SFTConfig(steps=350, batch_size=64, learning_rate=5e-5, micro_tokens=16_384)
TRAINING: dict[str, Any] = {
    "updates": 40,
    "prompts": 64,
    "group_size": 8,
    "max_new_tokens": 256,
    "micro_tokens": 8_192,
    "sampler_dtype": "bfloat16",
}
BAD_BATCHES = 3  # in a row end a run, as `limits.bad_batches` of a job does
CURVES = (
    "reward", "accuracy", "reward/correct", "reward/format", "length", "truncated", "entropy",
    "silent_groups", "ratio_error", "sampler_error", "importance_weight", "clip_fraction",
    "gradient_norm", "skipped", "seconds/generate", "seconds/reward", "seconds/update",
)  # fmt: skip


def problems() -> tuple[list[WordProblem], list[WordProblem]]:
    """Training and test problems of the folder that ``NBKIT_GSM8K`` names.

    Raises:
        ValueError: the variable names no folder.

    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise ValueError(
            f"{VARIABLE} is not set; name a folder with GSM8K's train.jsonl, test.jsonl"
        )
    train, test = (load_gsm8k(Path(named) / f"{side}.jsonl") for side in ("train", "test"))
    return list(train.problems), list(test.problems)


def example(problem: WordProblem, vocabulary: Any) -> Example:
    """A training answer in the form that the reward asks for."""
    number = problem.answer.replace(",", "")
    text = f"<think>\n{problem.solution}\n</think>\n<answer>{number}</answer>"
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False)
    return Example(tuple(vocabulary.encode(problem.prompt)), (*ids, vocabulary.eos_id[0]))


def on(device: str) -> Parallel:
    """One device, whose passes are in bfloat16 and whose weights are float32."""
    return connect(ParallelConfig(precision="bfloat16"), World(device=torch.device(device)))


def teach(
    model: Any, asked: Sequence[WordProblem], vocabulary: Any, seed: int, device: str
) -> list[float]:
    """Supervised steps, in place; return the loss of each, nats a token."""
    trainer = sft.SFTTrainer(
        model, [example(problem, vocabulary) for problem in asked], LESSONS,
        pad_id=vocabulary.pad_id, generator=torch.Generator().manual_seed(seed),
        parallel=on(device),
    )  # fmt: skip
    history = trainer.run(progress=False)
    return [row["loss"] for row in history]


def reward(asked: Sequence[WordProblem], completions: Sequence[Any]) -> list[Composed]:
    """The two rewards of the job; a completion that was cut off earns neither."""
    return [
        Composed(-2.0, {"correct": 0.0, "format": 0.0})
        if completion.truncated
        else simple_grpo.reward(completion.text, problem.answer)
        for problem, completion in zip(asked, completions, strict=True)
    ]


def answered(
    model: Any,
    vocabulary: Any,
    asked: Sequence[WordProblem],
    *,
    seed: int,
    temperature: float,
    samples: int = 1,
    max_batch: int = 512,
) -> dict[str, Any]:
    """Answer problems with a bfloat16 copy of the weights and verify the answers.

    Args:
        model: that answers.
        vocabulary: of a chat.
        asked: the problems.
        seed: of the sampling.
        temperature: 0: greedily.
        samples: answers to each problem.
        max_batch: answers that are written at one time.

    Returns:
        "right" (of each problem, how many of its answers), "format" (share), "length" (mean,
        tokens), "truncated" (share), "texts" (the first answer to each of the first three problems,
        with the number that was wanted and whether it is right).

    """
    made = generate(
        model, [vocabulary.encode(problem.prompt) for problem in asked],
        max_new_tokens=TRAINING["max_new_tokens"], temperature=temperature,
        eos_ids=vocabulary.eos_id, pad_id=vocabulary.pad_id, seeds=seed, group_size=samples,
        max_batch=max_batch, dtype=torch.bfloat16,
    )  # fmt: skip
    texts = [vocabulary.decode(row) for row in made.lists()]
    parts = [
        simple_grpo.reward(text, asked[row // samples].answer).parts
        for row, text in enumerate(texts)
    ]
    correct = [int(one["correct"]) for one in parts]
    return {
        "right": [sum(correct[i : i + samples]) for i in range(0, len(correct), samples)],
        "format": sum(one["format"] for one in parts) / len(parts),
        "length": made.lengths.double().mean().item(),
        "truncated": made.truncated.double().mean().item(),
        "texts": [
            {"text": texts[row], "wanted": asked[row // samples].answer, "right": correct[row]}
            for row in range(0, min(3 * samples, len(texts)), samples)
        ],
    }


def judged(
    model: Any, vocabulary: Any, test: Sequence[WordProblem], *, seed: int, few: int, samples: int
) -> dict[str, Any]:
    """All test problems greedily, and the first ``few`` with ``samples`` answers each."""
    greedy = answered(model, vocabulary, test, seed=seed, temperature=0.0)
    many = answered(model, vocabulary, test[:few], seed=seed, temperature=1.0, samples=samples)
    clear(model)
    ks = [2**i for i in range(samples.bit_length()) if 2**i <= samples]
    return {
        "greedy": {**greedy, "right": sum(greedy["right"]), "count": len(test)},
        "sampled": {**many, "right": sum(many["right"]), "count": few * samples},
        "pass_at_k": {str(k): solved_by(k, many["right"], samples) for k in ks},
    }


def learn(
    model: Any,
    vocabulary: Any,
    train: Sequence[WordProblem],
    settings: Mapping[str, Any],
    *,
    seed: int,
    device: str,
    deadline: float,
    batches: Path,
) -> dict[str, Any]:
    """GRPO on a supervised start, in place, in bfloat16.

    Args:
        model: that learns.
        vocabulary: of a chat.
        train: problems.
        settings: of the arm.
        seed: of the run.
        device: of the model.
        deadline: reading of ``time.monotonic`` after which no update begins.
        batches: folder for the first batch whose gradient is not finite.

    Returns:
        "updates", "curves" (by metric), "bad_updates" (whose gradient was not finite), "ended"
        (why), "training_seconds".

    """
    trainer = GRPOTrainer(
        model, vocabulary, train, reward, variant("dr_grpo", **{**TRAINING, **settings}),
        generator=torch.Generator().manual_seed(seed), parallel=on(device),
    )  # fmt: skip
    begun = time.monotonic()
    ended: Callable[[], str | None] = lambda: (  # noqa: E731
        "three batches in a row without a finite gradient"
        if bad_batches(trainer.history) >= BAD_BATCHES
        else "all updates" if trainer.finished
        else "out of time" if time.monotonic() > deadline
        else None
    )  # fmt: skip
    bad: list[int] = []
    while (why := ended()) is None:
        metrics = trainer.step()
        if metrics.get("skipped"):
            bad.append(trainer.done)
            if len(bad) == 1 and trainer.refused is not None:
                batches.mkdir(parents=True, exist_ok=True)
                save_refused(batches, trainer.done, trainer.refused)
    clear(model)
    return {
        "updates": trainer.done,
        "curves": {
            name: [_plain(row.get(name)) for row in trainer.history]
            for name in CURVES
            if any(name in row for row in trainer.history)
        },
        "bad_updates": bad,
        "ended": why,
        "training_seconds": time.monotonic() - begun,
    }


def _plain(value: float | None) -> float | None:
    """A number that JSON can hold; None where it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)
