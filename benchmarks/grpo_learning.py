"""GRPO on a processor: both trainers from one taught model, both curves, both speeds."""

import tempfile
import time
from typing import Any

import torch
from grpo_peer import Watch, tokenizer_of, train_with_trl

from nbkit.envs.arithmetic import PIECE, ArithmeticVocabulary, Sum
from nbkit.recipes.grpo_recipe import arithmetic_recipe, evaluate, verifier
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.variants import variant
from nbkit.trainers.scoring import Completion

UPDATES, PROMPTS, GROUP = 30, 16, 8
LEARNING_RATE = 1e-3


def verify_for_trl(
    prompts: list[str], completions: list[str], completion_ids: list[list[int]],
    terms: list[list[int]], **_: Any,
) -> list[float]:  # fmt: skip
    """Our verifier, called as TRL calls a reward."""
    problems = [Sum(tuple(numbers)) for numbers in terms]
    written = [
        Completion(text, len(ids), ArithmeticVocabulary.eos_id not in ids)
        for text, ids in zip(completions, completion_ids, strict=True)
    ]
    return [reward.total for reward in verifier(problems, written)]


def learn(seed: int, updates: int, lessons: int) -> dict[str, Any]:
    """Both trainers from one taught model, one after the other."""
    vocabulary = ArithmeticVocabulary()
    plan = arithmetic_recipe(terms=(2, 2), lessons=lessons)
    limit = plan.config.max_new_tokens
    body = {**plan.body, "width": 48, "layers": 2}
    plan = type(plan)(**{**vars(plan), "body": body})
    taught = plan.taught(seed)
    weights = {name: x.clone() for name, x in taught.state_dict().items()}
    problems = plan.problems(2000, seed)
    held = plan.problems(400, 10_000 + seed, held_out=True)
    judge = {"max_new_tokens": limit, "seed": seed}
    result: dict[str, Any] = {
        "seed": seed,
        "before": evaluate(taught, vocabulary, held, **judge)["accuracy"],
    }
    config = variant(
        "grpo", updates=updates, prompts=PROMPTS, group_size=GROUP, max_new_tokens=limit,
        learning_rate=LEARNING_RATE, decay=False, warmup=0, betas=(0.9, 0.999), kl_coefficient=0.0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        taught, vocabulary, problems, verifier, config,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    start = time.process_time()
    history = trainer.run(progress=False)
    result["nbkit"] = {
        "seconds": time.process_time() - start,
        "rewards": [round(step["reward"], 4) for step in history],
        "after": evaluate(taught, vocabulary, held, **judge)["accuracy"],
    }
    taught.load_state_dict(weights)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        log = train_with_trl(
            taught, tokenizer_of(vocabulary, PIECE.pattern),
            [{"prompt": p.prompt, "terms": list(p.terms)} for p in problems],
            verify_for_trl, folder, watch,
            max_steps=updates, per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
            gradient_accumulation_steps=1, max_completion_length=limit, loss_type="grpo", beta=0.0,
            learning_rate=LEARNING_RATE, lr_scheduler_type="constant", weight_decay=0.0, seed=seed,
            use_cpu=True, bf16=False, gradient_checkpointing=False,
        )  # fmt: skip
        seconds = time.process_time() - start
    result["trl"] = {
        "seconds": sum(watch.seconds),
        "seconds with set-up": seconds,
        "rewards": [round(row["reward"], 4) for row in log],
        "after": evaluate(taught.eval(), vocabulary, held, **judge)["accuracy"],
    }
    return result
