"""Shared by the studies of chapter 23: bases, arms, runs in parallel, intervals over paired seeds.

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
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nbkit.envs.arithmetic import ArithmeticVocabulary, corpus, correct
from nbkit.generate import generate
from nbkit.recipes.grpo_recipe import (
    Recipe,
    arithmetic_recipe,
    evaluate,
    supervised_loss,
    verifier,
)
from nbkit.recipes.grpo_rewards import PartMarks
from nbkit.text.policies_hf import tiny_model
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo_config import GRPOConfig
from nbkit.trainers.grpo_scoring import RewardFunction
from studies._frame import Run, by_arm, figures, run_all

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
        made = generate(
            model,
            [VOCABULARY.encode(problem.prompt) for problem in part],
            max_new_tokens=recipe("taught").config.max_new_tokens,
            eos_ids=VOCABULARY.eos_id,
            pad_id=VOCABULARY.pad_id,
            seeds=seed + start,
            group_size=scale.samples,
        )
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
) -> tuple[dict[str, list[Run]], dict[str, list[Run]]]:
    """Teach every base that is needed, then run every arm with every seed, seed by seed.

    No run begins after `minutes`. The seeds that then lack an arm are left out whole. With `keep`
    each run leaves its result in that folder, and one that is there is not done again.

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
        taught = run_all(lessons, jobs=jobs, kept=folder / "bases.jsonl", tell=accuracy)
        tasks = {
            (title, seed): partial(
                run_arm, arm, seed, folder, scale, device,
                method=methods[arm.method], with_pass_at_k=title in pass_at_k_of,
            )
            for seed, (title, arm) in itertools.product(seeds, arms.items())
        }  # fmt: skip
        done = run_all(tasks, jobs=jobs, kept=folder / "runs.jsonl", end=end, tell=accuracy)
    counts = Counter(seed for _, seed in done)
    whole = [seed for seed in seeds if counts[seed] == len(arms)]
    if not whole:
        raise RuntimeError(f"no seed has every arm after {minutes:g} minutes; give it more time")
    runs = by_arm({key: run for key, run in done.items() if key[1] in whole})
    return by_arm(taught), {title: runs[title] for title in arms}


def accuracy(run: Run) -> str:
    """How good a base or a run became."""
    return f"accuracy {run.get('after', run)['accuracy']:.3f}"


# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values: Sequence[float]) -> list[float]:
    """Mean, and the two ends of its 95 % interval by Student's t over the seeds."""
    x = torch.tensor(list(values), dtype=torch.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return [mean, mean, mean]
    half = _T[min(len(x) - 2, len(_T) - 1)] * float(x.std()) / len(x) ** 0.5
    return [round(mean, 4), round(mean - half, 4), round(mean + half, 4)]


def summary(
    runs: Mapping[str, Sequence[Run]], against: Mapping[str, str] | str
) -> dict[str, dict[str, Any]]:
    """Intervals of each arm, and of its difference to another arm on the same seeds.

    Args:
        runs: of each arm, in the order of the seeds.
        against: the arm that all, or each, are compared with.

    """
    result = {}
    for name, arm in runs.items():
        row: dict[str, Any] = {
            key: interval([run["after"][key] for run in arm])
            for key in ("accuracy", "greedy", "format", "length")
        }
        for key in ("entropy", "silent_groups", "discarded", "updates", "seconds"):
            if all(key in run for run in arm):
                row[key] = interval([run[key] for run in arm])
        other = against if isinstance(against, str) else against.get(name, name)
        row["against"] = other
        row["difference"] = interval(
            [
                a["after"]["accuracy"] - b["after"]["accuracy"]
                for a, b in zip(arm, runs[other], strict=True)
            ]
        )
        result[name] = row
    return result


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


HEAD_METRICS = ("reward", "length", "entropy", "gradient_norm")
HEAD_TOLERANCES = {
    **{"reward": 2e-3, "length": 0.02, "entropy": 1e-3, "gradient_norm": 2e-3, "kl": 3e-4},
    "loss on careful texts": 1e-3,
}


def head_of(
    arms: Mapping[str, Arm], methods: Mapping[str, Method] | None = None
) -> dict[str, float]:
    """What CI repeats of some arms: a few small updates each, from hardly taught bases.

    Such a base answers nothing rightly, so that the verifier alone would teach it nothing: an
    honest arm is paid for the form instead.
    """
    methods = {"grpo": train_grpo, **(methods or {})}
    seed, found = SEEDS[0], {}
    texts = corpus(32, seed=1, forget=0.0, second_look=0.0, skip=0.0, terms=recipe("taught").terms)
    rows = [
        (VOCABULARY.encode(problem.prompt), [*VOCABULARY.encode(text), VOCABULARY.eos_id])
        for problem, text in texts
    ]

    def loss(model: Any) -> float:
        with torch.no_grad():
            return supervised_loss(model, rows, VOCABULARY.pad_id).item()

    with tempfile.TemporaryDirectory() as name:
        for base in sorted({arm.base for arm in arms.values()}):
            model = recipe(base, SMALL).taught(seed)
            torch.save(model.state_dict(), Path(name, f"{base}_{seed}.pt"))
            found[f"base {base}: loss on careful texts"] = loss(model)
        for title, arm in arms.items():
            small = changed(arm, prompts=max(1, arm.config.prompts // 4))
            if arm.reward is honest:
                small = replace(small, reward=paid_for_form)
            model, reference = (
                load_base(arm.base, seed, Path(name), SMALL, "cpu") for _ in range(2)
            )
            run = methods[arm.method](model, small, seed, SMALL, reference)
            steps = run.get("curve", {})
            shown = [key for key in (*HEAD_METRICS, "kl") if key in steps]
            history = [
                dict(zip(shown, values, strict=True))
                for values in zip(*(steps[key] for key in shown), strict=True)
            ]
            found |= figures(history, shown, title)
            found[f"{title}: loss on careful texts"] = loss(model)
    return found


def paid_for_form(seed: int) -> RewardFunction:
    """Marks for tags in their place, which a hardly taught model earns too."""
    return PartMarks("form", 1.0)


def changed(arm: Arm, **changes: Any) -> Arm:
    """An arm with other settings of the trainer."""
    return replace(arm, config=replace(arm.config, **changes))
