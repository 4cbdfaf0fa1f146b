"""DPO against PPO on one hidden reward: what a nat of divergence buys.

Protocol, fixed before the run; the settings were found on seed 101. All arms of a seed start from
the same base. DPO and the reward model get the same 4,000 pairs of its answers, whose labels were
drawn from the gold reward by Bradley-Terry. The reward model is trained and centred as that of
chapter 21, with the settings that were tuned there. "ppo gold" is PPO on the gold reward itself,
which no labeller can hand over; "ppo model" is PPO on the reward model. The number behind a
name is beta, the coefficient of the KL in all three. Best of n draws n answers and keeps the best
by the gold reward or by the reward model; its KL is the bound log n - (n - 1) / n. Everything is
judged on answers to the held-out questions.
"""

import copy
import math
from dataclasses import asdict, replace
from typing import Any

import torch

from nbkit.envs.helpful import all_questions, gold
from nbkit.generate import generate
from nbkit.recipes import dpo_runs as runs
from nbkit.recipes.dpo_recipe import LIVE, MAX_NEW_TOKENS, VOCABULARY, Base, ids_of, make_base
from nbkit.recipes.rlhf_recipe import Recipe
from nbkit.text.policies_value import ScalarModel
from nbkit.trainers import reward_model as rm
from nbkit.trainers.dpo.config import Kind
from nbkit.trainers.rlhf import RLHFTrainer
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.scoring import Completion
from studies._arms import Arms, every
from studies._dpo_head import STEP_TOLERANCES, first_steps
from studies._frame import Frame, figures, first_updates

SEEDS = (1, 2, 3)
DPO = replace(LIVE, steps=300)
PPO = RLHFConfig(
    updates=100, prompts=64, max_new_tokens=MAX_NEW_TOKENS, missing_eos_penalty=1.0, decay=True,
    value_learning_rate=2e-3,
)  # fmt: skip
REWARD_MODEL = Recipe(pairs=runs.PAIRS).reward_model_steps()
DPO_BETAS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PPO_BETAS = (0.02, 0.05, 0.1, 0.2, 0.5)
KINDS: dict[str, Kind] = {"dpo": "sigmoid", "ipo": "ipo"}
NS = (1, 2, 4, 8, 16, 32, 64)
ARMS = (
    *(f"dpo {beta}" for beta in DPO_BETAS),
    *(f"ipo {beta}" for beta in DPO_BETAS[2:]),
    *(f"ppo gold {beta}" for beta in PPO_BETAS),
    *(f"ppo model {beta}" for beta in PPO_BETAS),
    "best of n",
)


def best_of_n(base: Base, seed: int, samples: int = 64) -> dict[str, Any]:
    """Gold reward of the best of n, chosen by gold and by a reward model, for all n at once.

    From N samples the expectation over all subsets of n is a weighted sum of the sorted values:
    the sample of rank i (from 0, best last) is the best with probability C(i, n-1) / C(N, n).
    """
    model = runs.make_reward_model(base, REWARD_MODEL, seed)
    reward_of = rm.reward_function(model, VOCABULARY)
    questions = all_questions(held_out=True)
    made = generate(
        base.model, [VOCABULARY.encode(q.prompt) for q in questions],
        max_new_tokens=MAX_NEW_TOKENS, eos_ids=VOCABULARY.eos_id, pad_id=VOCABULARY.pad_id,
        seeds=20_000 + seed, group_size=samples,
    )  # fmt: skip
    cut = made.truncated.tolist()
    texts = [VOCABULARY.decode(row) for row in made.lists()]
    asked = [questions[row // samples] for row in range(len(texts))]
    golds = torch.tensor(
        [gold(q, t, truncated=c) for q, t, c in zip(asked, texts, cut, strict=True)]
    ).view(-1, samples)
    answers = [
        Completion(text, len(ids), truncated, tuple(ids))
        for text, ids, truncated in zip(texts, made.lists(), cut, strict=True)
    ]
    proxy = torch.tensor(reward_of(asked, answers)).view(-1, samples)
    curve = []
    for n in NS:
        weights = torch.tensor(
            [math.comb(i, n - 1) / math.comb(samples, n) for i in range(samples)]
        )
        row = {"n": float(n), "kl": math.log(n) - (n - 1) / n}
        for name, scores in (("gold", golds), ("model", proxy)):
            order = scores.argsort(1)
            row[name] = (golds.gather(1, order) * weights).sum(1).mean().item()
        curve.append(runs.rounded(row))
    return {"curve": curve}


def work(arm: str, seed: int, device: str) -> dict[str, Any]:
    """One arm of one seed."""
    base = make_base(seed, pairs=runs.PAIRS, device=device)
    if arm == "best of n":
        return {"arm": arm, "seed": seed, **best_of_n(base, seed)}
    name, _, beta = arm.rpartition(" ")
    if name in KINDS:
        learn = replace(DPO, beta=float(beta), kind=KINDS[name])
        return {"arm": arm, "seed": seed, **runs.run_dpo(base, base.pairs, learn, seed)}
    reward = None
    if name == "ppo model":
        reward = runs.make_reward_model(base, REWARD_MODEL, seed)
    config = replace(PPO, kl_coefficient=float(beta))
    return {"arm": arm, "seed": seed, **runs.run_ppo(base, config, seed, reward)}


def head() -> dict[str, float]:
    """The first steps of DPO, IPO, the reward model and PPO on it, from a short base."""
    base = make_base(SEEDS[0], pairs=64, sft_steps=60)
    found = first_steps(base, base.pairs, DPO, SEEDS[0], "dpo")
    found |= first_steps(base, base.pairs, replace(DPO, kind="ipo"), SEEDS[0], "ipo")
    small = replace(REWARD_MODEL, steps=4, batch_size=16)
    model = ScalarModel.from_causal(base.model)
    history = rm.train(
        model, ids_of(base.pairs), small, pad_id=VOCABULARY.pad_id,
        generator=runs.generator(SEEDS[0]), progress=False,
    )  # fmt: skip
    found |= figures(history, ("loss", "gradient_norm"), "reward model")
    trainer = RLHFTrainer(
        copy.deepcopy(base.model), VOCABULARY, all_questions(False),
        rm.reward_function(model, VOCABULARY), replace(PPO, prompts=16), reference=base.model,
        value=copy.deepcopy(model), generator=runs.generator(SEEDS[0]),
    )  # fmt: skip
    return found | first_updates(trainer, 2, PPO_METRICS, "ppo model")


PPO_METRICS = ("reward", "kl", "entropy", "policy_loss", "value_loss", "gradient_norm")
TOLERANCES = {
    **STEP_TOLERANCES,
    # Comparisons leave a constant of the reward free, which the optimiser moves by rounding.
    **{"reward": 1e-3, "kl": 2e-3, "entropy": 1e-3, "policy_loss": 5e-4, "value_loss": 5e-5},
    # IPO's loss is the square of a distance of 5
    **{f"ipo: {metric} {step}": 0.02 for metric in ("loss", "gradient_norm") for step in (1, 2, 3)},
}
PROTOCOL = {
    "dpo": asdict(DPO),
    "ppo": asdict(PPO),
    "reward_model": asdict(REWARD_MODEL),
    "pairs": runs.PAIRS,
    "arms": list(ARMS),
}
SLOW_FIRST = sorted(ARMS, key=lambda arm: not arm.startswith("ppo"))
STUDY = Frame(
    __file__,
    Arms(
        work,
        every(SLOW_FIRST, SEEDS),
        PROTOCOL,
        result=lambda found: {"runs": list(found.values()), "protocol": PROTOCOL},
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
