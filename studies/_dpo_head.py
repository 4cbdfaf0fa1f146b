"""What the heads of chapter 22's studies share: the first steps of DPO."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbkit.recipes.dpo_recipe import VOCABULARY, Base, ids_of
from nbkit.trainers.dpo import DPOTrainer
from nbkit.trainers.dpo.config import DPOConfig
from studies._dpo_runs import generator
from studies._frame import first_updates

METRICS = ("loss", "margin", "logp_chosen", "logp_rejected", "gradient_norm")
STEP_TOLERANCES = {
    **{"loss": 5e-4, "margin": 2e-4, "gradient_norm": 2e-3},
    **{"logp_chosen": 5e-3, "logp_rejected": 5e-3},
}


def first_steps(
    base: Base, pairs: Sequence[Any], config: DPOConfig, seed: int, arm: str
) -> dict[str, float]:
    """Figures of three steps with small batches from a base."""
    trainer = DPOTrainer(
        copy.deepcopy(base.model),
        ids_of(pairs),
        replace(config, steps=3, batch_size=8),
        pad_id=VOCABULARY.pad_id,
        generator=generator(seed),
    )
    return first_updates(trainer, 3, METRICS, arm)


def first_of_arms(
    base: Base,
    arms: Mapping[str, tuple[str, DPOConfig]],
    chosen: Sequence[str],
    pairs_of: Callable[[str, Base, int], Sequence[Any]],
    seed: int,
) -> dict[str, float]:
    """Figures of the first steps of some arms, each a kind of data and a configuration."""
    found: dict[str, float] = {}
    for arm in chosen:
        data, config = arms[arm]
        found |= first_steps(base, pairs_of(data, base, seed), config, seed, arm)
    return found
