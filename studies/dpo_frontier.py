"""From comparisons to a policy: what a nat of divergence buys, and what it costs, by each method.

Protocol, fixed before the run. All arms of a seed start from the same base and the same 4,000 pairs
of its answers, whose labels were drawn from the gold reward by Bradley-Terry. Every method was
tuned by the same budget on seeds 101 and 102 (`dpo_tuning`); ``CHOSEN`` is what won there. The
number behind a name is beta: the coefficient of the KL, or SimPO's scale. "ppo gold" is PPO on the
gold reward itself, which no labeller can hand over. Best of n draws n answers and keeps the best by
the gold reward or by the reward model; its KL is the bound log n - (n - 1) / n. Everything is
judged on answers to held-out questions, by the gold reward and by the reward model ("proxy").
Seconds are processor time of the training alone; those of the reward model stand beside.
"""

import copy
import time
from dataclasses import asdict, replace
from typing import Any

import torch

from nbkit.envs.helpful import all_questions, gold_reward
from nbkit.recipes.dpo_recipe import MAX_NEW_TOKENS, VOCABULARY, Base, ids_of, make_base
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers import reward_model as rm
from nbkit.trainers.best_of_n import best_of_n_kl_bound, best_of_n_values
from nbkit.trainers.dpo import OnlineDPOTrainer
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.rlhf import RLHFTrainer
from nbkit.trainers.rlhf.evaluation import draw
from studies import _dpo_runs as runs
from studies._arms import Arms, seed_by_seed
from studies._dpo_head import STEP_TOLERANCES, first_steps
from studies._frame import Frame, figures, first_updates
from studies._preference_methods import METHODS, REWARD_MODELS, reward_of

SEEDS = (1, 2, 3, 4, 5)
# Which of the settings that were tried won in `dpo_tuning`.
CHOSEN = {
    "sft": 1, "dpo": 1, "ipo": 3, "simpo": 1, "online dpo": 1, "rloo": 3, "ppo": 2, "ppo gold": 2,
    "reward model": 2,
}  # fmt: skip
REWARD_MODEL = REWARD_MODELS[CHOSEN["reward model"]]
NS = (1, 2, 4, 8, 16, 32, 64)
ARMS = {
    f"{name} {beta:g}": method.settings(beta, method.tried[CHOSEN[name]])
    for name, method in METHODS.items()
    for beta in method.betas
}
BEST = "best of n"


def best_of_n(base: Base, model: ScalarModel, seed: int, samples: int = 64) -> dict[str, Any]:
    """Gold reward of the best of n, chosen by gold and by a reward model, for all n at once."""
    questions = all_questions(held_out=True)
    start = time.process_time()
    _, asked, answers = draw(
        base.model, VOCABULARY, questions,
        samples=samples, max_new_tokens=MAX_NEW_TOKENS, seed=20_000 + seed,
    )  # fmt: skip
    seconds = (time.process_time() - start) / len(answers)
    golds = torch.tensor(gold_reward(asked, answers)).view(-1, samples)
    proxy = torch.tensor(reward_of(model)(asked, answers)).view(-1, samples)
    curve = []
    for n in NS:
        row = {"n": float(n), "kl": best_of_n_kl_bound(n)}
        for name, scores in (("gold", golds), ("model", proxy)):
            row[name] = best_of_n_values(scores, golds, n).mean().item()
        row["proxy"] = best_of_n_values(proxy, proxy, n).mean().item()
        curve.append(runs.rounded(row))
    return {"curve": curve, "seconds_an_answer": seconds}


def work(arm: str, seed: int) -> dict[str, Any]:
    """One arm of one seed."""
    base = make_base(seed, pairs=runs.PAIRS)
    start = time.process_time()
    model = runs.make_reward_model(base, REWARD_MODEL, seed)
    found = {"arm": arm, "seed": seed, "reward_model_seconds": time.process_time() - start}
    if arm == BEST:
        return found | best_of_n(base, model, seed)
    method = METHODS[arm.rpartition(" ")[0]]
    return found | method.run(base, ARMS[arm], seed, model)


def head() -> dict[str, float]:
    """The first steps of each kind of method, from a short base."""
    seed = SEEDS[0]
    base = make_base(seed, pairs=64, sft_steps=60)
    found: dict[str, float] = {}
    for arm in ("dpo 0.1", "ipo 0.1", "simpo 2"):
        found |= first_steps(base, base.pairs, ARMS[arm], seed, arm)
    small = replace(REWARD_MODEL, steps=4, batch_size=16)
    model = ScalarModel.from_causal(base.model)
    judge = rm.RewardModelTrainer(
        model, ids_of(base.pairs), small, pad_id=VOCABULARY.pad_id, generator=runs.generator(seed)
    )
    history = judge.run(progress=False)
    found |= figures(history, ("loss", "gradient_norm"), "reward model")
    given = {"reference": base.model, "generator": runs.generator(seed)}
    asked = (VOCABULARY, all_questions(False), reward_of(model))
    ppo, rloo, online = (ARMS[arm] for arm in ("ppo 0.1", "rloo 0.1", "online dpo 0.1"))
    few = {"prompts": 8, "max_new_tokens": 200}  # an untaught policy ends no sentence
    trainers = {
        "ppo": RLHFTrainer(
            copy.deepcopy(base.model), *asked, replace(ppo, **few),
            value=copy.deepcopy(model), **given,
        ),
        "rloo": GRPOTrainer(copy.deepcopy(base.model), *asked, replace(rloo, **few), **given),
        "online dpo": OnlineDPOTrainer(
            copy.deepcopy(base.model), *asked,
            replace(online, sampling=replace(online.sampling, **few)), **given,
        ),
    }  # fmt: skip
    for name, trainer in trainers.items():
        found |= first_updates(trainer, 2, METRICS[name], name)
    return found


METRICS = {
    "ppo": ("reward", "kl", "entropy", "policy_loss", "value_loss", "gradient_norm"),
    "rloo": ("reward", "kl", "entropy", "gradient_norm"),
    "online dpo": ("reward", "loss", "margin", "entropy", "gradient_norm"),
}
TOLERANCES = {
    **STEP_TOLERANCES,
    # Comparisons leave a constant of the reward free, which the optimiser moves by rounding.
    **{"reward": 1e-3, "kl": 2e-3, "entropy": 1e-3, "policy_loss": 5e-4, "value_loss": 5e-5},
    # IPO's loss is the square of a distance of 5
    **{f"ipo 0.1: {name} {step}": 0.02 for name in ("loss", "gradient_norm") for step in (1, 2, 3)},
}
PROTOCOL = {
    "methods": {arm: asdict(settings) for arm, settings in ARMS.items()},
    "chosen": CHOSEN,
    "reward_model": asdict(REWARD_MODEL),
    "pairs": runs.PAIRS,
}
SLOW_FIRST = sorted(ARMS, key=lambda arm: not arm.startswith(("ppo", "rloo", "online")))
STUDY = Frame(
    __file__,
    Arms(
        work,
        seed_by_seed([*SLOW_FIRST, BEST], SEEDS),
        PROTOCOL,
        result=lambda found: {"runs": list(found.values()), "protocol": PROTOCOL},
        tell=lambda run: f"gold {run['curve'][-1]['gold']:+.2f}",
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
