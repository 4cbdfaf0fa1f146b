"""How the methods of `dpo_frontier` were tuned: each by the same budget, on seeds of its own.

Protocol, fixed before the run: four settings of each method at the middle of its sweep of beta, two
seeds, judged by the mean gold reward of the trained policy's answers to held-out questions; four
settings of the reward model, judged by its loss on held-out comparisons. The reward model comes
first: until it is chosen, the methods that need one use chapter 21's settings. What won is written
into `dpo_frontier`, and a test holds it to this result.
"""

from dataclasses import asdict
from typing import Any

from nbkit.envs.helpful import policy_sampler, preference_pairs
from nbkit.recipes.dpo_recipe import MAX_NEW_TOKENS, VOCABULARY, Base, ids_of, make_base
from nbkit.trainers import reward_model as rm
from studies import _dpo_runs as runs
from studies._arms import Arms, Run, seed_by_seed
from studies._frame import Frame, figures
from studies._preference_methods import METHODS, REWARD_MODELS

SEEDS = (101, 102)
UNTUNED = REWARD_MODELS[1]  # chapter 21's
HELD_OUT = 1000
ARMS = (
    *(f"{name} {number}" for name in METHODS for number in range(len(METHODS[name].tried))),
    *(f"reward model {number}" for number in range(len(REWARD_MODELS))),
)


def held_out_pairs(base: Base, seed: int) -> list[Any]:
    """Comparisons that no reward model learns from."""
    sampler = policy_sampler(base.model, VOCABULARY, max_new_tokens=MAX_NEW_TOKENS, rounds=20)
    return ids_of(preference_pairs(HELD_OUT, seed=50_000 + seed, sampler=sampler))


def work(arm: str, seed: int) -> Run:
    """One setting of one method and seed."""
    base = make_base(seed, pairs=runs.PAIRS)
    name, _, number = arm.rpartition(" ")
    if name == "reward model":
        model = runs.make_reward_model(base, REWARD_MODELS[int(number)], seed)
        found = rm.evaluate(model, held_out_pairs(base, seed), pad_id=VOCABULARY.pad_id)
        return {"arm": arm, "seed": seed, **runs.rounded(found)}
    method = METHODS[name]
    settings = method.settings(method.middle, method.tried[int(number)])
    model = runs.make_reward_model(base, UNTUNED, seed)
    return {"arm": arm, "seed": seed, **method.run(base, settings, seed, model)}


def chosen(arms: dict[str, list[Run]]) -> dict[str, int]:
    """The number of the setting that won, for each method and for the reward model.

    Of a method the highest mean gold reward at the end, of the reward model the lowest mean loss.
    """
    scores: dict[str, dict[int, float]] = {}
    for arm, found in arms.items():
        name, _, number = arm.rpartition(" ")
        ends = [-run["loss"] if "loss" in run else run["curve"][-1]["gold"] for run in found]
        scores.setdefault(name, {})[int(number)] = sum(ends) / len(ends)
    return {name: max(of, key=lambda number: of[number]) for name, of in scores.items()}


def head() -> dict[str, float]:
    """The first steps of the reward model and of a method on it, from a short base."""
    base = make_base(SEEDS[0], pairs=64, sft_steps=60)
    model = runs.make_reward_model(base, rm.RewardModelConfig(4, 16, 3e-3), SEEDS[0])
    return figures(
        [rm.evaluate(model, ids_of(base.pairs), pad_id=VOCABULARY.pad_id)], ("loss", "margin"),
        "reward model",
    )  # fmt: skip


def said(arms: dict[str, list[Run]]) -> list[str]:
    """What was chosen."""
    return [f"{name}: setting {number}" for name, number in chosen(arms).items()]


PROTOCOL = {
    "methods": {
        name: [
            asdict(method.settings(method.middle, changes)) for changes in method.tried
        ]
        for name, method in METHODS.items()
    },
    "reward_models": [asdict(one) for one in REWARD_MODELS],
    "pairs": runs.PAIRS,
    "held_out": HELD_OUT,
}  # fmt: skip
SLOW_FIRST = sorted(ARMS, key=lambda arm: not arm.startswith(("ppo", "rloo", "online")))
STUDY = Frame(
    __file__,
    Arms(work, seed_by_seed(SLOW_FIRST, SEEDS), PROTOCOL, verdict=said).measure,
    head,
    {"loss": 5e-4, "margin": 1e-3},
)

if __name__ == "__main__":
    STUDY.main()
