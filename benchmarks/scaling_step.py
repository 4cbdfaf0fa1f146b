"""A whole GRPO step on the GPUs that train: seconds to generate, reward, update, and to wait."""

import gc
import re
import statistics
import time
from typing import Any

import torch
from scaling_update import (
    LOSS,
    Clock,
    connected,
    figures,
    memory_gib,
    prepare,
    take_step,
)
from torch import Tensor

from nbkit.generate import generate
from nbkit.trainers.grpo.batch import advantages

GROUP = 8
NUMBER = re.compile(r"t(\d+)")


def measure_step(setting: dict[str, Any], world: Any) -> dict[str, Any]:
    """Each rank samples groups of answers by the engine, scores their text, and all learn once."""
    began = time.perf_counter()
    parallel = connected(setting, world)
    shape = prepare(parallel, setting, world.device)
    prepared = time.perf_counter()
    clock = Clock(world.device)
    warm = [whole_step(parallel, setting, shape, clock, -1 - n) for n in range(setting["warmup"])]
    warmed = time.perf_counter()
    if setting["device"] == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = [whole_step(parallel, setting, shape, clock, n) for n in range(setting["steps"])]
    updates = [{**taken["update_parts"], "seconds": taken["update"]} for taken in steps]
    of_update = figures(setting, shape, world.size, updates)
    parts = ("generate", "reward", "update", "wait", "seconds")
    split = {name: statistics.median(taken[name] for taken in steps) for name in parts}
    tokens = setting["rows_per_gpu"] * (setting["length"] - setting["length"] // 8)
    return {
        **of_update,
        **memory_gib(parallel.largest, setting["device"]),
        "split_of_step": split,
        "generated_tokens_per_second_per_gpu": tokens / split["generate"],
        "of_the_update": "tokens a second, MFU and split are those of the update alone",
        "steps": steps,
        "warmup_seconds": [taken["seconds"] for taken in warm],
        "setup_seconds": {"prepare": prepared - began, "warm up": warmed - prepared},
    }


def whole_step(
    parallel: Any, setting: dict[str, Any], shape: Any, clock: Clock, number: int
) -> dict[str, Any]:
    """Sample, score, learn; seconds of each, and of waiting for the slowest rank."""
    device, length = parallel.world.device, setting["length"]
    prompt, rows = length // 8, setting["rows_per_gpu"]
    seed = 1000 * (number + 10) + parallel.world.rank
    g = torch.Generator().manual_seed(seed)
    prompts = torch.randint(2, shape.vocab_size, (rows // GROUP, prompt), generator=g).tolist()
    low = torch.bfloat16 if setting["precision"] == "bfloat16" else None
    start = clock.now()
    with parallel.gathered() as whole:
        answers = generate(
            whole, prompts, max_new_tokens=length - prompt, seeds=seed, group_size=GROUP, dtype=low
        )
    generated = clock.now()
    rewards = torch.tensor([score(text_of(row)) for row in answers.lists()], device=device)
    rewarded = clock.now()
    batches = micro_batches(answers, rewards, setting["micro_rows"])
    gc.collect()
    parallel.barrier()
    waited = clock.now()
    taken = take_step(parallel, batches, setting, clock)
    end = clock.now()
    found = {
        "generate": generated - start,
        "reward": rewarded - generated,
        "wait": waited - rewarded,
        "update": end - waited,
        "seconds": end - start,
    }
    return {
        **{name: parallel.largest(value) for name, value in found.items()},
        "update_parts": {k: v for k, v in taken.items() if k != "seconds"},
        "engine": dict(answers.stats),
        "tokens_sampled": int(answers.mask.sum()),
    }


def micro_batches(answers: Any, rewards: Tensor, micro: int) -> list[dict[str, Tensor]]:
    """The parts of the update: ids (R, L), mask (R, L-1) of what was sampled, advantages."""
    values = advantages(rewards, answers.mask, LOSS)
    prompt = answers.prompt_ids.shape[1]
    mask = torch.nn.functional.pad(answers.mask, (prompt - 1, 0))
    values = torch.nn.functional.pad(values, (prompt - 1, 0))
    ids = answers.ids
    return [
        {
            "ids": ids[i : i + micro],
            "mask": mask[i : i + micro],
            "advantages": values[i : i + micro],
        }
        for i in range(0, len(ids), micro)
    ]


def text_of(ids: list[int]) -> str:
    """Words for random tokens, so that a rule has text to read."""
    return " ".join(f"t{number}" for number in ids)


def score(text: str) -> float:
    """A rule on text, read on the host: the share of words with an even number."""
    numbers = NUMBER.findall(text)
    return sum(int(number) % 2 == 0 for number in numbers) / max(1, len(numbers))
