"""What the studies of the numbers game run: bases, trainings within a budget, and their measure."""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from nbkit.envs.countdown import (
    CountdownVocabulary,
    Game,
    Player,
    Shape,
    attempts_of,
    corpus,
    correct,
    draw_games,
    game_reward,
)
from nbkit.generate import answer, clear
from nbkit.recipes.grpo_recipe import teach
from nbkit.rewards.compose import Composed
from nbkit.text.scalar_models import ScalarModel
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer, variant
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from studies._shares import solved_by

VOCABULARY = CountdownVocabulary()
KINDS: dict[str, tuple[int, Shape]] = {
    "three numbers": (3, "chain"),
    "four numbers": (4, "chain"),
    "four numbers in pairs": (4, "pairs"),  # no game of the corpus, none of the training
}
PPO = "PPO"


@dataclass(frozen=True)
class Scale:
    """How large everything is.

    Attributes:
        body: of ``tiny_model``.
        examples: of the corpus.
        lessons: of ``teach``.
        games: to train on.
        prompts: a batch.
        group_size: completions of each; PPO samples as many of each.
        limit: tokens of a completion, EOS included.
        budget: sampled tokens of a run, those of discarded groups included.
        asked: held-out games of each kind.
        samples: answers to each.
        micro_tokens: of one forward pass.

    """

    body: Mapping[str, Any] = field(
        default_factory=lambda: {"width": 384, "layers": 6, "heads": 6, "rope_base": 1000.0}
    )
    examples: int = 200_000
    lessons: Mapping[str, Any] = field(
        default_factory=lambda: {"steps": 3000, "batch_size": 256, "learning_rate": 1e-3}
    )
    games: int = 20_000
    prompts: int = 32
    group_size: int = 16
    limit: int = 192
    budget: int = 4_000_000
    asked: int = 200
    samples: int = 64
    micro_tokens: int = 60_000


WHOLE = Scale()
SMALL = Scale(
    body={"width": 32, "layers": 2, "heads": 2, "rope_base": 100.0},
    examples=300,
    lessons={"steps": 20, "batch_size": 16, "learning_rate": 5e-3},
    games=200,
    prompts=4,
    group_size=4,
    limit=48,
    budget=1_500,
    asked=4,
    samples=4,
    micro_tokens=4_000,
)


def teach_base(seed: int, folder: Path, scale: Scale, device: str) -> dict[str, Any]:
    """Teach a base on the corpus, save it, and measure it."""
    torch.set_float32_matmul_precision("high")
    begun = time.perf_counter()
    model = new_model(seed, scale).to(device)
    losses = teach(model, VOCABULARY, corpus(scale.examples, seed=seed), seed=seed, **scale.lessons)
    seconds = time.perf_counter() - begun
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / f"base_{seed}.pt")
    return {
        "loss": losses[:: max(1, len(losses) // 25)],
        "teaching_seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters()),
        **measured(model, seed, scale),
    }


def new_model(seed: int, scale: Scale) -> Any:
    """A fresh transformer."""
    return tiny_model(VOCABULARY, max_length=scale.limit + 32, seed=seed, **scale.body)


def load_base(seed: int, folder: Path, scale: Scale, device: str) -> Any:
    """A copy of a taught base."""
    model = new_model(seed, scale)
    model.load_state_dict(torch.load(folder / f"base_{seed}.pt", weights_only=True))
    return model.to(device)


def measured(model: Any, seed: int, scale: Scale) -> dict[str, Any]:
    """Held-out games of each kind, sampled: accuracy, pass@k, lengths, and some answers."""
    found: dict[str, Any] = {}
    for kind, (numbers, shape) in KINDS.items():
        asked = draw_games(
            scale.asked, seed=30_000 + seed, numbers=(numbers, numbers), shape=shape, held_out=True
        )
        made = answer(
            model, VOCABULARY, asked,
            max_new_tokens=scale.limit, seeds=seed, group_size=scale.samples, max_batch=2048,
        )  # fmt: skip
        texts = [VOCABULARY.decode(row) for row in made.lists()]
        each = [game for game in asked for _ in range(scale.samples)]
        ended = (~made.truncated).tolist()
        right = [
            int(whole and correct(game, text))
            for game, text, whole in zip(each, texts, ended, strict=True)
        ]
        n = scale.samples
        counts = [sum(right[i : i + n]) for i in range(0, len(right), n)]
        ks = [2**i for i in range(n.bit_length()) if 2**i <= n]
        found[kind] = {
            "accuracy": sum(right) / len(right),
            "pass_at_k": {str(k): solved_by(k, counts, n) for k in ks},
            "truncated": made.truncated.double().mean().item(),
            "attempts": sum(len(attempts_of(text)) for text in texts) / len(texts),
            **lengths_by(right, made.lengths.tolist()),
            "texts": [
                {"prompt": each[row].prompt, "text": texts[row], "right": right[row]}
                for row in range(0, min(4 * n, len(texts)), n)
            ],
        }
    clear(model)
    return found


def lengths_by(right: Sequence[int], lengths: Sequence[int]) -> dict[str, float | None]:
    """Mean tokens of right and of wrong answers; None where there is none."""
    groups = {1: list[int](), 0: list[int]()}
    for one, length in zip(right, lengths, strict=True):
        groups[one].append(length)
    means = {key: sum(group) / len(group) if group else None for key, group in groups.items()}
    return {"length_right": means[1], "length_wrong": means[0]}


class Judge:
    """The reward of the game, which remembers the lengths of right and wrong answers a batch."""

    def __init__(self) -> None:
        self.lengths: list[dict[str, float | None]] = []

    def __call__(self, games: Sequence[Game], completions: Sequence[Any]) -> list[Composed]:
        """As ``game_reward``."""
        rewards = game_reward(games, completions)
        tokens = [one.length for one in completions]
        self.lengths.append(lengths_by([int(one.parts["correct"]) for one in rewards], tokens))
        return rewards


CURVES = (
    "total_tokens", "reward", "length", "truncated", "entropy", "silent_groups", "clip_fraction",
    "gradient_norm", "explained_variance", "skipped", "seconds/generate", "seconds/update",
)  # fmt: skip


def trainer_of(
    name: str, model: Any, judge: Judge, changes: Mapping[str, Any], seed: int, scale: Scale
) -> GRPOTrainer | RLHFTrainer:
    """The trainer of an algorithm: a variant of GRPO by its name, or PPO with a critic.

    Args:
        name: of ``nbkit.trainers.grpo.variants``, or "PPO".
        model: a base, trained in place.
        judge: of the answers.
        changes: settings on top.
        seed: of games and sampling.
        scale: of the run.

    """
    games = draw_games(scale.games, seed=seed)
    generator = torch.Generator(next(model.parameters()).device).manual_seed(seed)
    shared = {
        "updates": 100_000, "max_new_tokens": scale.limit, "micro_tokens": scale.micro_tokens,
        "kl_coefficient": 0.0, "minibatches": 4, "decay": False, "warmup": 5,
    }  # fmt: skip
    if name == PPO:
        ppo = {"prompts": scale.prompts, "group_size": scale.group_size, "epochs": 1, "lam": 1.0}
        config = RLHFConfig(**{**shared, **ppo, **changes})
        value = ScalarModel.from_causal(model, head="zero")
        return RLHFTrainer(
            model, VOCABULARY, games, judge, config,
            reference=copy.deepcopy(model), value=value, generator=generator,
        )  # fmt: skip
    groups = (scale.prompts * scale.group_size, 1) if name == "reinforce++" else None
    prompts, group_size = groups or (scale.prompts, scale.group_size)
    settings = {**shared, "prompts": prompts, "group_size": group_size, **changes}
    return GRPOTrainer(
        model, VOCABULARY, games, judge, variant(name, **settings), generator=generator
    )


def learn(
    name: str, changes: Mapping[str, Any], seed: int, folder: Path, scale: Scale, device: str
) -> dict[str, Any]:
    """Train a copy of a base until the budget is spent, and measure it."""
    torch.set_float32_matmul_precision("high")
    model = load_base(seed, folder, scale, device)
    judge, begun = Judge(), time.perf_counter()
    trainer = trainer_of(name, model, judge, changes, seed, scale)
    trainer.run(progress=False, stop=lambda step: step["total_tokens"] >= scale.budget)
    history = trainer.history
    if judge.lengths and len(judge.lengths) == len(history):
        rows = [{**row, **more} for row, more in zip(history, judge.lengths, strict=True)]
    else:  # rounds of dynamic sampling: several batches an update
        rows = [dict(row) for row in history]
    every = max(1, len(rows) // 60)
    found = {
        "updates": len(history),
        "tokens": history[-1]["total_tokens"],
        "training_seconds": time.perf_counter() - begun,
        "curve": {
            key: [_plain(row.get(key)) for row in rows[::every]]
            for key in (*CURVES, "length_right", "length_wrong")
            if any(key in row for row in rows)
        },
    }
    clear(model)
    limit = changes.get("max_new_tokens", scale.limit)  # judged as it was trained
    return found | measured(model, seed, replace(scale, limit=limit))


def _plain(value: float | None) -> float | None:
    """A number that JSON can hold; None where it is not finite."""
    return None if value is None or not math.isfinite(value) else round(float(value), 5)


def protocol(scale: Scale, arms: Mapping[str, Any]) -> dict[str, Any]:
    """What the stamp keeps."""
    return {"player": asdict(Player()), "scale": asdict(scale), "kinds": KINDS, "arms": dict(arms)}
