"""RLHF on the language world: what over-optimisation depends on, and what holds it back.

Protocol, fixed before the run. Each run makes everything from its seed: SFT policy, comparisons,
reward model, PPO. The hidden judge ("gold") watches and never teaches. The learning rate is a third
of chapter 21's and the updates are more, because at chapter 21's the KL of runs without a penalty
jumps by tens of nats from one update to the next (seeds 101 and 102); "rate" repeats that. Arms:

- "pairs": reward models of 100, 500 and 4,000 comparisons, no KL penalty (beta = 0);
- "size": reward models of three sizes at 4,000 comparisons, beta = 0, each with a body of its own
  size that went through stage 1;
- "beta": five prices of a nat at 500 comparisons;
- "kl": an adaptive price with two targets at 4,000 comparisons, against the fixed one;
- "value": four starts of the value model at 4,000 comparisons;
- "details": no missing-EOS penalty at beta = 0, and whitened rewards;
- "rate": chapter 21's learning rates, at 500 and 4,000 comparisons, beta = 0.

The runs of "pairs" also give best-of-n curves of the SFT policy under the same reward model.
One run a process, one thread each.
"""

import time
from dataclasses import asdict, replace
from typing import Any

import torch

from nbkit.envs.helpful import HelpfulVocabulary, all_questions, gold_parts, gold_reward
from nbkit.recipes.rlhf_recipe import Recipe, comparisons, stage_one, stage_three, stage_two
from nbkit.trainers.best_of_n import best_of_n_curve
from nbkit.trainers.reward_model import calibration, margins, reward_function
from nbkit.trainers.rlhf.evaluation import evaluate, sample_table
from studies._arms import Arms, every
from studies._frame import Frame, figures, first_updates

SEEDS = (11, 12, 13, 14, 15)
LIVE = Recipe()  # chapter 21's
BASE = replace(
    LIVE,
    rlhf=replace(LIVE.rlhf, updates=120, learning_rate=3e-4, value_learning_rate=1e-3),
)
SIZES = {"small": (32, 1), "middle": (64, 2), "large": (128, 3)}
BETAS = (0.0, 0.02, 0.05, 0.1, 0.2)
TARGETS = (3.0, 8.0)
KEPT = (
    "kl", "gold", "reward", "length", "truncated", "entropy", "clip_fraction", "kl_coefficient",
    "explained_variance", "value_loss",
)  # fmt: skip
EVERY = 2
BEST_OF = (1, 2, 4, 8, 16, 32, 64, 128)


def arms() -> dict[str, dict[str, Any]]:
    """Arm: the number of pairs, and changes to PPO, to the value model and to the reward model."""
    free = {"kl_coefficient": 0.0}
    found: dict[str, dict[str, Any]] = {
        f"pairs {count}": {"pairs": count, "rlhf": free, "best_of_n": True}
        for count in (100, 500, 4000)
    }
    found |= {
        f"size {name}": {"pairs": 4000, "rlhf": free, "size": size}
        for name, size in SIZES.items()
        if name != "middle"
    }  # the middle one is "pairs 4000"
    found |= {
        f"beta {beta}": {"pairs": 500, "rlhf": {"kl_coefficient": beta}} for beta in BETAS if beta
    }  # beta 0 is "pairs 500"
    found |= {
        f"kl target {target:g}": {
            "pairs": 4000,
            "rlhf": {"kl_coefficient": 0.05, "kl_target": target, "kl_horizon": 500.0},
        }
        for target in TARGETS
    }  # fmt: skip
    found |= {
        f"value {start}": {"pairs": 4000, "value": start}
        for start in ("reward-model", "policy", "random", "shared")
    }
    found["no missing-EOS penalty"] = {
        "pairs": 500, "rlhf": {**free, "missing_eos_penalty": 0.0},
    }  # fmt: skip
    found |= {
        f"rate of chapter 21, pairs {count}": {
            "pairs": count,
            "rlhf": {**free, "learning_rate": LIVE.rlhf.learning_rate, "value_learning_rate": None},
        }
        for count in (500, 4000)
    }
    found["whitened rewards"] = {"pairs": 4000, "rlhf": {"whiten_rewards": True}}
    return found


def recipe_of(arm: dict[str, Any], updates: int | None = None) -> Recipe:
    changes = dict(arm.get("rlhf", {}))
    if updates is not None:
        changes["updates"] = updates
    return replace(
        BASE, pairs=arm["pairs"], value=arm.get("value", BASE.value),
        rlhf=replace(BASE.rlhf, **changes),
    )  # fmt: skip


def curve(history: list[dict[str, float]]) -> dict[str, list[float]]:
    rows = [h for h in history if (h["update"] - 1) % EVERY == 0 or h is history[-1]]
    return {
        "update": [row["update"] for row in rows],
        **{
            {"reward": "proxy"}.get(name, name): [round(row[name], 4) for row in rows]
            for name in KEPT
        },
    }


def run(name: str, seed: int, device: str = "cpu", updates: int | None = None) -> dict[str, Any]:
    """One arm with one seed, from nothing."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    arm = arms()[name]
    recipe = recipe_of(arm, updates)
    policy = stage_one(recipe, seed=seed).to(device)
    pairs, held_out = comparisons(recipe, policy, seed=seed)
    body = policy
    if "size" in arm:
        width, layers = arm["size"]
        own = replace(recipe, body={**recipe.body, "width": width, "layers": layers})
        body = stage_one(own, seed=seed).to(device)
    proxy = stage_two(recipe, body, pairs, held_out, seed=seed)
    vocabulary = HelpfulVocabulary()
    rewards = {"gold": gold_reward, "proxy": reward_function(proxy.model, vocabulary)}
    asked = all_questions(held_out=True)
    settings = {"samples": 16, "seed": seed}
    before = evaluate(policy, policy, vocabulary, asked, rewards, **settings)
    trainer = stage_three(recipe, policy, proxy.model, seed=seed)
    history = trainer.run(progress=False)
    after = evaluate(trainer.policy, policy, vocabulary, asked, rewards, **settings)
    table = sample_table(trainer.policy, policy, vocabulary, asked, rewards, seed=seed)
    sure = calibration(margins(proxy.model, proxy.held_out, pad_id=vocabulary.pad_id))
    result = {
        "arm": name,
        "seed": seed,
        "pairs": recipe.pairs,
        "size": arm.get("size", SIZES["middle"]),
        "beta": recipe.rlhf.kl_coefficient,
        "reward_model": {
            "accuracy": proxy.accuracy,
            "loss": proxy.loss,
            "gold_accuracy": proxy.gold_accuracy,
            "train_loss": proxy.history[-1]["loss"],
            "calibration": asdict(sure),
        },
        "before": before,
        "after": after,
        "curve": curve(history),
        "samples": [
            {
                "prompt": row.problem.text,
                "text": row.completion.text,
                "truncated": row.completion.truncated,
                **{key: round(value, 3) for key, value in row.scores.items()},
                "parts": {
                    key: round(value, 3)
                    for key, value in gold_parts(row.problem, row.completion.text).items()
                },
            }
            for row in table[:6]
        ],
    }
    if arm.get("best_of_n"):
        result["best_of_n"] = best_of_n_curve(
            policy, vocabulary, asked, rewards["proxy"], gold_reward,
            samples=max(BEST_OF), ns=BEST_OF, seed=seed,
        )  # fmt: skip
    return {**result, "seconds": round(time.perf_counter() - start, 1)}


def head() -> dict[str, float]:
    """All three stages at a tenth of their size: comparisons of demonstrations, then PPO."""
    small = replace(
        BASE, demonstrations=400, sft=replace(BASE.sft, steps=25), pairs=64, held_out=32,
        reward_model=replace(BASE.reward_model, steps=10),
        rlhf=replace(BASE.rlhf, prompts=16, updates=2),
    )  # fmt: skip
    policy = stage_one(small, seed=SEEDS[0])
    # An untaught policy ends no sentence, so the limit of its samples is lifted.
    long = replace(small, rlhf=replace(small.rlhf, max_new_tokens=400))
    pairs, held_out = comparisons(long, policy, seed=SEEDS[0])
    proxy = stage_two(small, policy, pairs, held_out, seed=SEEDS[0])
    found = figures(proxy.history[:10:3], ("loss", "gradient_norm"), "reward model")
    found["reward model: held-out loss"] = proxy.loss
    trainer = stage_three(small, policy, proxy.model, seed=SEEDS[0])
    return found | first_updates(trainer, 2, PPO_METRICS, "ppo")


def gained(result: dict[str, Any]) -> str:
    """What a run did to the gold reward."""
    before, after = result["before"], result["after"]
    return f"gold {before['gold']:+.2f} -> {after['gold']:+.2f}, KL {after['kl']:.1f}"


PPO_METRICS = ("reward", "kl", "entropy", "policy_loss", "value_loss", "gradient_norm")
TOLERANCES = {
    **{"loss": 5e-4, "held-out loss": 5e-4, "gradient_norm": 2e-3, "entropy": 1e-3, "kl": 2e-3},
    **{"reward": 5e-4, "policy_loss": 5e-4, "value_loss": 1e-4},
}
SLOW_FIRST = sorted(arms(), key=lambda name: "large" not in name)  # large reward models
STUDY = Frame(
    __file__,
    Arms(
        run,
        every(SLOW_FIRST, SEEDS),
        {"base": asdict(BASE), "arms": arms()},
        result=lambda runs: {"runs": [runs[key] for key in sorted(runs)]},
        tell=gained,
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
