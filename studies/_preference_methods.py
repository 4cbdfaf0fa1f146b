"""The methods that chapter 22 compares on one footing, and what each may be tuned in.

All start from the same base and the same comparisons. Those that need a reward function take a
reward model of these comparisons; the penalty for an answer that met the limit belongs to it. The
samplers get 64 answers an update. Each method is tried at ``TRIED`` settings on the tuning seeds,
at the beta that stands in the middle of its sweep; the reward model likewise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nbkit.recipes.dpo_recipe import LIVE, MAX_NEW_TOKENS, VOCABULARY, Base
from nbkit.trainers import reward_model as rm
from nbkit.trainers import sft
from nbkit.trainers.dpo import DPOConfig, OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.grpo import GRPOTrainer, variant
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.rlhf.config import RLHFConfig
from studies import _dpo_runs as runs

TRIED = 4
UPDATES, ANSWERS = 100, 64
PAIRS = replace(LIVE, steps=300)
ON_PAIRS = (
    {"learning_rate": 1e-4}, {"learning_rate": 3e-4}, {"learning_rate": 1e-3},
    {"learning_rate": 3e-4, "steps": 600},
)  # fmt: skip
RATES = (
    {"learning_rate": 1e-4},
    {"learning_rate": 3e-4},
    {"learning_rate": 1e-3},
    {"learning_rate": 3e-3},
)
SAMPLER = GRPOConfig(
    updates=UPDATES, prompts=ANSWERS // 2, group_size=2, max_new_tokens=MAX_NEW_TOKENS
)
REWARD_MODELS = (
    rm.RewardModelConfig(steps=375, batch_size=32, learning_rate=1e-3),
    rm.RewardModelConfig(steps=375, batch_size=32, learning_rate=3e-3),
    rm.RewardModelConfig(steps=750, batch_size=32, learning_rate=1e-3),
    rm.RewardModelConfig(steps=750, batch_size=32, learning_rate=3e-3),
)


@dataclass(frozen=True)
class Method:
    """One way from comparisons to a policy.

    Attributes:
        settings: from a beta and the changes that are being tried to the settings of a run.
        run: base, settings, seed and the reward model to a run.
        betas: the sweep, most freedom first; one entry: there is nothing to sweep.
        tried: changes of the settings.

    """

    settings: Callable[[float, dict[str, Any]], Any]
    run: Callable[[Base, Any, int, Any], dict[str, Any]]
    betas: tuple[float, ...]
    tried: tuple[dict[str, Any], ...]

    @property
    def middle(self) -> float:
        """The beta of the tuning."""
        return self.betas[len(self.betas) // 2]


def reward_of(model: Any) -> Any:
    """What the samplers are paid: the reward model's score, less 1 without an EOS."""
    return runs.penalised(rm.reward_function(model, VOCABULARY))


def _pairs(kind: str, **fixed: Any) -> Callable[[float, dict[str, Any]], DPOConfig]:
    return lambda beta, changes: replace(PAIRS, kind=kind, beta=beta, **{**fixed, **changes})


def _run_pairs(base: Base, config: DPOConfig, seed: int, model: Any) -> dict[str, Any]:
    return {"curve": runs.run_dpo(base, base.pairs, config, seed, proxy=reward_of(model))["curve"]}


def _run_sft(base: Base, config: sft.SFTConfig, seed: int, model: Any) -> dict[str, Any]:
    return runs.run_sft(base, config, seed, proxy=reward_of(model))


def _run_ppo(base: Base, config: RLHFConfig, seed: int, model: Any) -> dict[str, Any]:
    return runs.run_ppo(base, config, seed, model, proxy=reward_of(model))


def _run_gold(base: Base, config: RLHFConfig, seed: int, model: Any) -> dict[str, Any]:
    return runs.run_ppo(base, config, seed, None, proxy=reward_of(model))


def _rloo(beta: float, changes: dict[str, Any]) -> GRPOConfig:
    settings = {
        "updates": UPDATES, "prompts": ANSWERS // 4, "group_size": 4, "learning_rate": 1e-3,
        "max_new_tokens": MAX_NEW_TOKENS, "kl_coefficient": beta, **changes,
    }  # fmt: skip
    return variant("rloo", **settings)


def _ppo(beta: float, changes: dict[str, Any]) -> RLHFConfig:
    settings = {"learning_rate": 1e-3, "value_learning_rate": 2e-3, **changes}
    return RLHFConfig(
        updates=UPDATES, prompts=ANSWERS, max_new_tokens=MAX_NEW_TOKENS, decay=True,
        missing_eos_penalty=1.0, kl_coefficient=beta, **settings,
    )  # fmt: skip


SWEEP = (0.02, 0.05, 0.1, 0.2, 0.5)
PPO_TRIED = (
    {"learning_rate": 3e-4}, {"learning_rate": 1e-3}, {"learning_rate": 2e-3},
    {"learning_rate": 1e-3, "value_learning_rate": 5e-3},
)  # fmt: skip
METHODS = {
    "sft": Method(
        lambda _, changes: sft.SFTConfig(**{"steps": 300, "batch_size": 32, **changes}),
        _run_sft, (0.0,), ON_PAIRS,
    ),
    "dpo": Method(_pairs("sigmoid"), _run_pairs, SWEEP, ON_PAIRS),
    "ipo": Method(_pairs("ipo"), _run_pairs, SWEEP, ON_PAIRS),
    # the paper's ratio of gamma to beta is about a half; its betas are 2 to 10
    "simpo": Method(
        lambda beta, changes: replace(
            PAIRS, kind="simpo", beta=beta, simpo_margin=0.5 * beta, **changes
        ),
        _run_pairs, (8.0, 4.0, 2.0, 1.0, 0.5), ON_PAIRS,
    ),
    "online dpo": Method(
        lambda beta, changes: OnlineDPOConfig(SAMPLER, replace(PAIRS, beta=beta, **changes)),
        lambda base, config, seed, model: runs.run_sampled(
            base, OnlineDPOTrainer, config, seed, reward_of(model)
        ),
        SWEEP, RATES,
    ),
    "rloo": Method(
        _rloo,
        lambda base, config, seed, model: runs.run_sampled(
            base, GRPOTrainer, config, seed, reward_of(model)
        ),
        SWEEP, RATES,
    ),
    "ppo": Method(_ppo, _run_ppo, SWEEP, PPO_TRIED),
    "ppo gold": Method(_ppo, _run_gold, SWEEP, PPO_TRIED),
}  # fmt: skip
