"""Shared by the studies of chapter 23: bases, arms, runs in parallel, intervals over paired seeds.

A base is a tiny transformer after supervised lessons on texts with planted faults (see
``nbkit.envs.arithmetic``); every arm of a seed starts from the same weights and is asked the same
problems. A run ends when it has sampled ``BUDGET`` tokens, those of discarded groups included.
"""

import itertools
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nbkit.envs.arithmetic import ArithmeticVocabulary, correct
from nbkit.generate import generate
from nbkit.policies_hf import tiny_model
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo_config import GRPOConfig
from nbkit.trainers.grpo_recipe import Recipe, arithmetic_recipe, evaluate, verifier
from nbkit.trainers.grpo_scoring import RewardFunction

SEEDS = (1, 2, 3, 4, 5)
BUDGET = 600_000  # sampled tokens of a run
HELD_OUT = 500
TRAINING = 8000
VOCABULARY = ArithmeticVocabulary()
Run = dict[str, Any]
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
SMALL = Scale(budget=12_000, held_out=40, lessons=12, samples=4, asked=6)

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


def teach_base(base: str, seed: int, folder: Path, scale: Scale) -> tuple[str, int, Run]:
    """Teach a base, save it, and say how good it is."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    model = recipe(base, scale).taught(seed)
    seconds = time.perf_counter() - start
    torch.save(model.state_dict(), folder / f"{base}_{seed}.pt")
    return base, seed, {"seed": seed, "seconds": round(seconds, 1), **judged(model, seed, scale)}


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
    name: str,
    arm: Arm,
    seed: int,
    folder: Path,
    scale: Scale,
    device: str,
    *,
    method: Method = train_grpo,
    with_pass_at_k: bool = False,
) -> tuple[str, int, Run]:
    """Train one seed of one arm from its base and judge it."""
    torch.set_num_threads(1)
    model = load_base(arm.base, seed, folder, scale, device)
    needs_reference = arm.config.kl_coefficient > 0
    reference = load_base(arm.base, seed, folder, scale, device) if needs_reference else None
    start = time.perf_counter()
    result = method(model, arm, seed, scale, reference)
    seconds = time.perf_counter() - start
    after = judged(model, seed, scale)
    extra = {"pass_at_k": pass_at_k(model, seed, scale)} if with_pass_at_k else {}
    return (
        name,
        seed,
        {"seed": seed, "seconds": round(seconds, 1), "after": after, **result, **extra},
    )


def _kept(task: Callable[[], tuple[str, int, Run]], path: Path) -> tuple[str, int, Run]:
    """What the task returned when it was first done; a run that has ended is never lost."""
    if path.exists():
        name, seed, run = json.loads(path.read_text())
        return name, seed, run
    done = task()
    new = path.with_suffix(".new")
    new.write_text(json.dumps(done))
    new.replace(path)
    return done


def _in_time(task: Callable[[], Any], end: float) -> Any:
    """Do the task, or nothing if it is too late; the clock is the same in every process."""
    return task() if time.monotonic() < end else None


def parallel(
    tasks: Sequence[Callable[[], Any]], jobs: int, end: float = math.inf
) -> list[tuple[str, int, Run]]:
    """Results of the tasks, in order; each in a process of its own, `jobs` at a time.

    Tasks that have not begun when the clock ``time.monotonic`` reaches `end` are left out.
    """
    if jobs <= 1:
        return [done for task in tasks if (done := _in_time(task, end)) is not None]
    os.environ["OMP_NUM_THREADS"] = "1"  # the children read it
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context) as pool:
        futures = [pool.submit(_in_time, task, end) for task in tasks]
        for number, future in enumerate(as_completed(futures), 1):
            if (done := future.result()) is None:
                continue
            name, seed, run = done
            after = run.get("after", run)
            print(
                f"{number}/{len(tasks)} {name}, seed {seed}: {run['seconds']:.0f} s, "
                f"accuracy {after['accuracy']:.3f}",
                flush=True,
            )
        return [done for future in futures if (done := future.result()) is not None]


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
        pairs = list(itertools.product(wanted, seeds))
        lessons = [
            partial(_kept, partial(teach_base, b, s, folder, scale), folder / f"base {b} {s}.json")
            for b, s in pairs
        ]
        taught = parallel(lessons, jobs)
        tasks = [
            partial(
                _kept,
                partial(
                    run_arm, title, arm, seed, folder, scale, device,
                    method=methods[arm.method], with_pass_at_k=title in pass_at_k_of,
                ),
                folder / f"run {title} {seed}.json",
            )
            for seed, (title, arm) in itertools.product(seeds, arms.items())
        ]  # fmt: skip
        done = parallel(tasks, jobs, end)
    counts = Counter(seed for _, seed, _ in done)
    whole = [seed for seed in seeds if counts[seed] == len(arms)]
    if not whole:
        raise RuntimeError(f"no seed has every arm after {minutes:g} minutes; give it more time")
    bases: dict[str, list[Run]] = {base: [] for base in wanted}
    for base, _, run in taught:
        bases[base].append(run)
    runs: dict[str, list[Run]] = {title: [] for title in arms}
    for title, seed, run in done:
        if seed in whole:
            runs[title].append(run)
    return bases, runs


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


def head_of(arms: Mapping[str, Arm], **options: Any) -> list[float]:
    """Figures of a tiny version of some arms, one seed: what CI repeats."""
    bases, runs = run_arms(arms, seeds=SEEDS[:1], scale=SMALL, **options)
    figures = [run[0]["length"] for run in bases.values()]
    for run in runs.values():
        figures += [run[0]["after"]["length"], float(run[0].get("updates", 0))]
    return figures


def changed(arm: Arm, **changes: Any) -> Arm:
    """An arm with other settings of the trainer."""
    return replace(arm, config=replace(arm.config, **changes))
