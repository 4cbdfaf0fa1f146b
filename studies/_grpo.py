"""Shared by the studies of chapters 23 and 24: bases, arms, and their runs.

A base is a tiny transformer after supervised lessons on texts with planted faults (see
``nbkit.envs.arithmetic``); every arm of a seed starts from the same weights and is asked the same
problems. A run ends when it has sampled ``BUDGET`` tokens, those of discarded groups included.
"""

import itertools
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nbkit.envs.arithmetic import ArithmeticVocabulary, correct
from nbkit.generate import answer
from nbkit.recipes.grpo_recipe import (
    Recipe,
    arithmetic_recipe,
    evaluate,
    verifier,
)
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.scoring import RewardFunction
from studies._arms import Run, by_arm, run_all

SEEDS = (1, 2, 3, 4, 5)
BUDGET = 600_000  # sampled tokens of a run
HELD_OUT = 500
TRAINING = 8000
VOCABULARY = ArithmeticVocabulary()
# A learning rate that does not depend on how many updates a budget of tokens makes.
_COMMON = {"updates": 100_000, "decay": False, "learning_rate": 7e-4}


@dataclass(frozen=True)
class Scale:
    """How much of the protocol is run: all of it, or the few seconds that CI repeats."""

    budget: int = BUDGET
    held_out: int = HELD_OUT
    lessons: int | None = None
    samples: int = 64
    asked: int = 100


WHOLE = Scale()
SMALL = Scale(budget=6_000, lessons=12)

BASES: dict[str, dict[str, Any]] = {
    # forgets the carry in 85 of 100 texts, looks twice in 20, skips the work in 5
    "taught": {"forget": 0.85, "second_look": 0.2, "skip": 0.05, "lessons": 900},
    # the same texts, but hardly taught
    "early": {"forget": 0.85, "second_look": 0.2, "skip": 0.05, "lessons": 200},
    # has never seen a carry, nor a second look
    "never": {"forget": 1.0, "second_look": 0.0, "skip": 0.05, "lessons": 900},
}


def honest(seed: int) -> RewardFunction:
    """The verifier of the task, which is never wrong."""
    return verifier


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        config: settings of the trainer.
        base: key of ``BASES``.
        reward: builds the reward function of a seed.
        method: "grpo", or another function of ``METHODS`` of the study.

    """

    config: GRPOConfig
    base: str = "taught"
    reward: Callable[[int], RewardFunction] = honest
    method: str = "grpo"


def recipe(base: str, scale: Scale = WHOLE) -> Recipe:
    """The recipe of a base."""
    settings = dict(BASES[base])
    if scale.lessons is not None:
        settings["lessons"] = scale.lessons
    # One limit for all bases: room for the longest second look and for a penalty before the limit.
    limit = arithmetic_recipe(second_look=1.0).config.max_new_tokens
    return arithmetic_recipe(**settings, max_new_tokens=limit)


def settings(name: str = "grpo", **changes: Any) -> GRPOConfig:
    """A variant under the common protocol: no KL unless asked for, one gradient step a batch."""
    limit = recipe("taught").config.max_new_tokens
    return arithmetic_recipe(name, **{**_COMMON, "max_new_tokens": limit, **changes}).config


def judged(model: Any, seed: int, scale: Scale) -> dict[str, float]:
    """Held-out sums, answered once at temperature 1 and once greedily."""
    asked = recipe("taught").problems(scale.held_out, 10_000 + seed, held_out=True)
    limit = recipe("taught").config.max_new_tokens
    sampled = evaluate(model, VOCABULARY, asked, max_new_tokens=limit, seed=seed)
    greedy = evaluate(model, VOCABULARY, asked, max_new_tokens=limit, temperature=0.0)
    return {**sampled, "greedy": greedy["accuracy"]}


def pass_at_k(model: Any, seed: int, scale: Scale) -> dict[str, float]:
    """Share of held-out sums that k samples solve, unbiased (Chen et al., arXiv:2107.03374)."""
    asked = recipe("taught").problems(scale.asked, 20_000 + seed, held_out=True)
    right = torch.zeros(len(asked))
    for start in range(0, len(asked), 20):
        part = asked[start : start + 20]
        made = answer(
            model, VOCABULARY, part,
            max_new_tokens=recipe("taught").config.max_new_tokens,
            seeds=seed + start, group_size=scale.samples,
        )  # fmt: skip
        each = [problem for problem in part for _ in range(scale.samples)]
        texts = [VOCABULARY.decode(row) for row in made.lists()]
        scores = torch.tensor([correct(p, t) for p, t in zip(each, texts, strict=True)])
        right[start : start + len(part)] = scores.view(len(part), -1).sum(1)
    n = scale.samples
    result = {}
    for k in [2**i for i in range(n.bit_length()) if 2**i <= n]:
        # 1 - C(n-c, k) / C(n, k), as a product
        missed = torch.ones_like(right)
        for i in range(k):
            missed *= ((n - right - i) / (n - i)).clamp(min=0.0)
        result[str(k)] = float((1 - missed).mean())
    return result


def load_base(base: str, seed: int, folder: Path, scale: Scale, device: str) -> Any:
    """A fresh copy of a taught model."""
    model = tiny_model(VOCABULARY, seed=seed, **recipe(base, scale).body)
    model.load_state_dict(torch.load(folder / f"{base}_{seed}.pt", weights_only=True))
    return model.to(device)


def teach_base(base: str, seed: int, folder: Path, scale: Scale) -> Run:
    """Teach a base, save it, and say how good it is."""
    start = time.perf_counter()
    model = recipe(base, scale).taught(seed)
    seconds = time.perf_counter() - start
    torch.save(model.state_dict(), folder / f"{base}_{seed}.pt")
    return {"seed": seed, "seconds": round(seconds, 1), **judged(model, seed, scale)}


def curve(history: Sequence[Mapping[str, float]], points: int = 60) -> dict[str, list[float]]:
    """Some of the updates of a run."""
    names = ("total_tokens", "accuracy", "reward", "length", "entropy", "silent_groups")
    names += ("discarded_tokens", "kl", "clip_fraction", "gradient_norm")
    every = max(1, len(history) // points)
    kept = list(history[::every])
    return {
        name: [round(step[name], 4) for step in kept if name in step]
        for name in names
        if any(name in step for step in kept)
    }


def train_grpo(model: Any, arm: Arm, seed: int, scale: Scale, reference: Any) -> Run:
    """The trainer of the book under the budget."""
    trainer = GRPOTrainer(
        model,
        VOCABULARY,
        recipe(arm.base).problems(TRAINING, seed),
        arm.reward(seed),
        arm.config,
        reference=reference if arm.config.kl_coefficient else None,
        generator=torch.Generator(next(model.parameters()).device).manual_seed(seed),
    )
    trainer.run(progress=False, stop=lambda step: step["total_tokens"] >= scale.budget)
    history = trainer.history
    late = history[len(history) // 2 :]
    return {
        "updates": len(history),
        "tokens": history[-1]["total_tokens"],
        "discarded": sum(step["discarded_tokens"] for step in history)
        / history[-1]["total_tokens"],
        "silent_groups": sum(step["silent_groups"] for step in history) / len(history),
        "entropy": sum(step["entropy"] for step in late) / len(late),
        "curve": curve(history),
    }


Method = Callable[[Any, Arm, int, Scale, Any], Run]


def run_arm(
    arm: Arm,
    seed: int,
    folder: Path,
    scale: Scale,
    device: str,
    *,
    method: Method = train_grpo,
    with_pass_at_k: bool = False,
) -> Run:
    """Train one seed of one arm from its base and judge it."""
    model = load_base(arm.base, seed, folder, scale, device)
    needs_reference = arm.config.kl_coefficient > 0
    reference = load_base(arm.base, seed, folder, scale, device) if needs_reference else None
    start = time.perf_counter()
    result = method(model, arm, seed, scale, reference)
    seconds = time.perf_counter() - start
    after = judged(model, seed, scale)
    extra = {"pass_at_k": pass_at_k(model, seed, scale)} if with_pass_at_k else {}
    return {"seed": seed, "seconds": round(seconds, 1), "after": after, **result, **extra}


def run_arms(
    arms: Mapping[str, Arm],
    *,
    seeds: Sequence[int] = SEEDS,
    scale: Scale = WHOLE,
    jobs: int = 1,
    device: str = "cpu",
    methods: Mapping[str, Method] | None = None,
    pass_at_k_of: Sequence[str] = (),
    minutes: float = math.inf,
    keep: Path | None = None,
    of: str = "",
) -> tuple[dict[str, list[Run]], dict[str, list[Run]]]:
    """Teach every base that is needed, then run every arm with every seed, seed by seed.

    No run begins after `minutes`. The seeds that then lack an arm are left out whole. With `keep`
    each run leaves its result in that folder, and one that is there is not done again; `of` says
    what runs, as in ``studies._arms.run_all``.

    Returns:
        runs of each base, and runs of each arm, both in the order of the seeds.

    """
    methods = {"grpo": train_grpo, **(methods or {})}
    end = time.monotonic() + 60 * minutes
    wanted = sorted({arm.base for arm in arms.values()})
    with tempfile.TemporaryDirectory() as name:
        folder = keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        lessons = {
            (base, seed): partial(teach_base, base, seed, folder, scale)
            for base, seed in itertools.product(wanted, seeds)
        }
        taught = run_all(lessons, jobs=jobs, kept=folder / "bases.jsonl", of=of, tell=accuracy)
        tasks = {
            (title, seed): partial(
                run_arm, arm, seed, folder, scale, device,
                method=methods[arm.method], with_pass_at_k=title in pass_at_k_of,
            )
            for seed, (title, arm) in itertools.product(seeds, arms.items())
        }  # fmt: skip
        done = run_all(tasks, jobs=jobs, kept=folder / "runs.jsonl", of=of, end=end, tell=accuracy)
    counts = Counter(seed for _, seed in done)
    whole = [seed for seed in seeds if counts[seed] == len(arms)]
    if not whole:
        raise RuntimeError(f"no seed has every arm after {minutes:g} minutes; give it more time")
    runs = by_arm({key: run for key, run in done.items() if key[1] in whole})
    return by_arm(taught), {title: runs[title] for title in arms}


def accuracy(run: Run) -> str:
    """How good a base or a run became."""
    return f"accuracy {run.get('after', run)['accuracy']:.3f}"


def protocol(arms: Mapping[str, Arm]) -> dict[str, Any]:
    """What the stamp keeps of the arms."""
    return {
        "bases": BASES,
        "budget_tokens": BUDGET,
        "held_out": HELD_OUT,
        "arms": {
            n: {**asdict(a.config), "base": a.base, "method": a.method} for n, a in arms.items()
        },
    }
