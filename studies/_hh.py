"""What the comparison on HH-RLHF runs: the methods, one start, and the measure of them all."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbkit.data.encode import EncodedPair, Example
from nbkit.generate import clear, generate
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.best_of_n import best_of_n_kl_bound, best_of_n_values
from nbkit.trainers.dpo import DPOConfig, DPOTrainer, OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.dpo.evaluation import judge
from nbkit.trainers.grpo import GRPOConfig, GRPOTrainer, variant
from nbkit.trainers.loop import Trainer
from nbkit.trainers.reward_model import example_scores
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.scoring import RewardFunction
from studies._hh_data import ANSWER

BATCH = 256  # completions of an update, for the methods that sample
UPDATES, STEPS, PAIRS, POINTS = 40, 84, 32, 4
BEST_OF = (1, 2, 4, 8, 16, 32)
SAMPLER: dict[str, Any] = {"sampler_dtype": "bfloat16", "max_new_tokens": ANSWER}


@dataclass(frozen=True)
class World:
    """All that a run begins with.

    Attributes:
        start: the policy after stage 1, frozen; also the reference.
        proxy: the reward model that methods are paid by.
        gold: the one that judges.
        vocabulary: of prompts and answers.
        pairs: comparisons to learn from; their prompts are what is asked in training.

    """

    start: Any
    proxy: ScalarModel
    gold: ScalarModel
    vocabulary: Any
    pairs: Sequence[EncodedPair]

    @property
    def asked(self) -> Sequence[Any]:
        """The comparisons as problems: the trainers read their ``prompt_ids``."""
        return self.pairs


def scored_by(model: ScalarModel, pad_id: int) -> RewardFunction:
    """A reward model as a reward function, for prompts that are ids."""

    def reward(problems: Sequence[Any], completions: Sequence[Any]) -> list[float]:
        rows = [
            Example(problem.prompt_ids, one.ids)
            for problem, one in zip(problems, completions, strict=True)
        ]
        return example_scores(model, rows, pad_id=pad_id, batch_size=128).tolist()

    return reward


Settings = dict[str, Any]


def _rloo(world: World, model: Any, seed: int, settings: Settings) -> Trainer:
    given = {"updates": UPDATES, "prompts": BATCH // 8, "group_size": 8, "micro_tokens": 8_192}
    return GRPOTrainer(
        model, world.vocabulary, world.asked, scored_by(world.proxy, world.vocabulary.pad_id),
        variant("rloo", **{**given, **SAMPLER, **settings}),
        reference=world.start, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def _ppo(world: World, model: Any, seed: int, settings: Settings) -> Trainer:
    given = {
        "updates": UPDATES, "prompts": BATCH, "epochs": 1, "minibatches": 2, "decay": True,
        "warmup": 5, "value_learning_rate": 2e-5, "micro_tokens": 8_192,
    }  # fmt: skip
    value = copy.deepcopy(world.proxy).requires_grad_(True)
    return RLHFTrainer(
        model, world.vocabulary, world.asked, world.proxy,
        RLHFConfig(**{**given, **SAMPLER, **settings}),
        reference=world.start, value=value, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def _online_dpo(world: World, model: Any, seed: int, settings: Settings) -> Trainer:
    own = dict(settings)
    dpo = {name: own.pop(name) for name in ("learning_rate", "beta") if name in own}
    given = {"updates": UPDATES, "prompts": BATCH // 4, "group_size": 4}
    return OnlineDPOTrainer(
        model, world.vocabulary, world.pairs, scored_by(world.proxy, world.vocabulary.pad_id),
        OnlineDPOConfig(
            GRPOConfig(**{**given, **SAMPLER, **own}), DPOConfig(micro_pairs=16, warmup=5, **dpo)
        ),
        reference=world.start, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def _dpo(world: World, model: Any, seed: int, settings: Settings) -> Trainer:
    given = {"steps": STEPS, "batch_size": PAIRS, "micro_pairs": 16, "warmup": 8}
    return DPOTrainer(
        model, world.pairs, DPOConfig(**{**given, **settings}),
        reference=world.start, pad_id=world.vocabulary.pad_id,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def _simpo(world: World, model: Any, seed: int, settings: Settings) -> Trainer:
    return _dpo(world, model, seed, {"kind": "simpo", **settings})


METHODS: dict[str, Callable[[World, Any, int, Settings], Trainer]] = {
    "PPO": _ppo,
    "online DPO": _online_dpo,
    "RLOO": _rloo,
    "DPO": _dpo,
    "SimPO": _simpo,
}


def trainer_of(world: World, method: str, seed: int, settings: Settings) -> tuple[Trainer, Any]:
    """The trainer of a method on a copy of the start, and that copy."""
    model = copy.deepcopy(world.start).requires_grad_(True)
    return METHODS[method](world, model, seed, settings), model


def measured(
    world: World,
    model: Any,
    asked: Sequence[EncodedPair],
    *,
    seed: int,
    max_new_tokens: int = ANSWER,
    kept: Sequence[int] = (),
) -> dict[str, Any]:
    """Sample one answer to each prompt at temperature 1 and judge it.

    Args:
        world: start and judges.
        model: that answers.
        asked: whose prompts.
        seed: of the sampling.
        max_new_tokens: limit of an answer.
        kept: rows of the data whose answers are returned as "texts".

    Returns:
        means over the answers: "kl" (nats an answer, exact at each position), "gold", "proxy",
        each with its standard error as "..._error", and "length", "ended".

    """
    vocabulary = world.vocabulary
    rows: list[Example] = []
    texts: dict[str, str] = {}

    def note(number: int, answer: list[int], ended: bool) -> float:
        end = (vocabulary.eos_id,) if ended else ()
        rows.append(Example(asked[number].prompt_ids, (*answer, *end)))
        if asked[number].row in kept:
            texts[str(asked[number].row)] = vocabulary.decode(answer)
        return float(ended)

    found = judge(
        model, world.start, [list(pair.prompt_ids) for pair in asked],
        max_new_tokens=max_new_tokens, eos_id=vocabulary.eos_id, pad_id=vocabulary.pad_id,
        seed=seed, score=note, batch_size=64,
    )  # fmt: skip
    result: dict[str, Any] = {"length": found.lengths.double().mean().item()}
    if found.scores is not None:
        result["ended"] = found.scores.mean().item()
    numbers = {"kl": found.kl} | {
        name: example_scores(one, rows, pad_id=vocabulary.pad_id, batch_size=128).double()
        for name, one in (("gold", world.gold), ("proxy", world.proxy))
    }
    for name, values in numbers.items():
        result[name] = values.mean().item()
        result[f"{name}_error"] = (values.std() / len(values) ** 0.5).item()
    return result | ({"texts": texts} if kept else {})


def course(
    world: World,
    method: str,
    seed: int,
    settings: Settings,
    asked: Sequence[EncodedPair],
    **measure: Any,
) -> dict[str, Any]:
    """A whole run of a method, measured before it, at equal distances, and after it.

    Args:
        world: what it begins with.
        method: of ``METHODS``.
        seed: of the run; the prompts that are asked for the measure are sampled with another.
        settings: of the method.
        asked: prompts of the measure.
        measure: of ``measured``.

    """
    trainer, model = trainer_of(world, method, seed, settings)
    every = max(1, trainer.planned // POINTS)
    points: list[dict[str, Any]] = []

    def point() -> None:
        found = measured(world, model, asked, seed=1_000 + seed, **measure)
        points.append({"update": trainer.done, **found})

    point()
    while not trainer.finished:
        trainer.step()
        if trainer.done % every == 0 or trainer.finished:
            point()
    skipped = sum(row.get("skipped", 0.0) for row in trainer.history)
    clear(model)
    return {"settings": settings, "points": points, "skipped": skipped}


def best_of_n(
    world: World, asked: Sequence[EncodedPair], *, seed: int, max_new_tokens: int = ANSWER
) -> dict[str, Any]:
    """Proxy and gold of the best of n by the proxy, from one set of samples of the start.

    "kl_bound" is log n - (n - 1) / n nats; "seconds" are those of sampling and scoring the largest
    n by the proxy, for all prompts together.
    """
    vocabulary, most = world.vocabulary, max(BEST_OF)
    start = time.perf_counter()
    made = generate(
        world.start, [list(pair.prompt_ids) for pair in asked],
        max_new_tokens=max_new_tokens, eos_ids=vocabulary.eos_id, pad_id=vocabulary.pad_id,
        seeds=seed, group_size=most, max_batch=1_024,
        dtype=torch.bfloat16 if next(world.start.parameters()).is_cuda else None,
    )  # fmt: skip
    rows = [
        Example(asked[row // most].prompt_ids, tuple(answer))
        for row, answer in enumerate(made.lists())
    ]
    clear(world.start)
    tables, seconds = [], 0.0
    for one in (world.proxy, world.gold):
        scores = example_scores(one, rows, pad_id=vocabulary.pad_id, batch_size=128)
        tables.append(scores.double().view(len(asked), most))
        seconds = seconds or time.perf_counter() - start
    proxy, gold = tables
    points = []
    for n in BEST_OF:
        values = {
            "proxy": best_of_n_values(proxy, proxy, n),
            "gold": best_of_n_values(proxy, gold, n),
        }
        point = {"n": n, "kl_bound": best_of_n_kl_bound(n)}
        for name, value in values.items():
            point |= {
                name: value.mean().item(),
                f"{name}_error": (value.std() / len(value) ** 0.5).item(),
            }
        points.append(point)
    return {"points": points, "sampling_seconds": seconds, "answers": len(rows)}


def speed(world: World, method: str, settings: Settings, *, updates: int = 5) -> dict[str, Any]:
    """Seconds of an update, the median after two for warming up, and of making the trainer."""
    begun = _now()
    trainer, model = trainer_of(world, method, 0, settings)
    made = _now() - begun
    seconds = []
    for _ in range(2 + updates):
        begun = _now()
        trainer.step()
        seconds.append(_now() - begun)
    clear(model)
    return {
        "start_seconds": made,
        "update_seconds": sorted(seconds[2:])[updates // 2],
        "updates": trainer.planned,
    }


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
