"""What the heads of chapter 22's studies share: the first steps of DPO."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nbkit.recipes.dpo_recipe import VOCABULARY, Base, ids_of
from nbkit.recipes.dpo_runs import generator
from nbkit.trainers.dpo import DPOTrainer
from nbkit.trainers.dpo.config import DPOConfig
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
