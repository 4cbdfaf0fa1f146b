"""What the pairs do to DPO: flipped labels, and answers that are nearly the same.

Protocol, fixed before the run; the settings were found on seed 101. All arms of a seed start from
the same base and the same 4,000 pairs of its answers.

- "flipped": a share of 0.3 of the labels is turned round; DPO, conservative, robust, hinge, IPO.
- "twins": the rejected answer is a copy of the chosen one with one noun exchanged. The judge always
  prefers the original. With and without a term for the likelihood of the chosen answer, and beside
  the usual pairs ("policy") with the same settings. "sft on chosen" is that term alone: with a
  beta of 1e-6 the loss of the pairs has no gradient to speak of.
"""

from dataclasses import asdict, replace
from typing import Any

from nbkit.recipes.dpo_recipe import LIVE, Base, flip_labels, make_base, twins
from nbkit.trainers.dpo.config import DPOConfig
from studies import _dpo_runs as runs
from studies._arms import Arms, every
from studies._dpo_head import STEP_TOLERANCES, first_of_arms
from studies._frame import Frame

SEEDS = (1, 2, 3)
FLIPPED = 0.3
BASIS = replace(LIVE, steps=300)
HARD = replace(BASIS, beta=0.05, learning_rate=1e-3)
# arm: data, configuration
ARMS: dict[str, tuple[str, DPOConfig]] = {
    "clean, dpo": ("clean", BASIS),
    "flipped, dpo": ("flipped", BASIS),
    "flipped, conservative": ("flipped", replace(BASIS, label_smoothing=FLIPPED)),
    "flipped, robust": ("flipped", replace(BASIS, kind="robust", label_smoothing=FLIPPED)),
    "flipped, hinge": ("flipped", replace(BASIS, kind="hinge")),
    "flipped, ipo": ("flipped", replace(BASIS, kind="ipo")),
    "twins, dpo": ("twins", HARD),
    "twins, dpo with sft": ("twins", replace(HARD, sft_coefficient=1.0)),
    "policy, dpo": ("clean", HARD),
    "policy, dpo with sft": ("clean", replace(HARD, sft_coefficient=1.0)),
    "policy, sft on chosen": ("clean", replace(HARD, beta=1e-6, sft_coefficient=1.0)),
    "twins, sft on chosen": ("twins", replace(HARD, beta=1e-6, sft_coefficient=1.0)),
}


def pairs_of(data: str, base: Base, seed: int) -> list[Any]:
    """The pairs of an arm's kind of data."""
    if data == "flipped":
        return flip_labels(base.pairs, FLIPPED, seed=seed)
    return twins(base.pairs, seed=seed) if data == "twins" else base.pairs


def work(arm: str, seed: int, device: str) -> dict[str, Any]:
    """One arm of one seed."""
    data, config = ARMS[arm]
    base = make_base(seed, pairs=runs.PAIRS, device=device)
    pairs = pairs_of(data, base, seed)
    return {
        "arm": arm,
        "seed": seed,
        "pairs": len(pairs),
        **runs.run_dpo(base, pairs, config, seed),
    }


def head() -> dict[str, float]:
    """The first steps of one arm of each kind of data, from a short base."""
    base = make_base(SEEDS[0], pairs=64, sft_steps=60)
    arms = ("clean, dpo", "flipped, robust", "twins, dpo with sft")
    return first_of_arms(base, ARMS, arms, pairs_of, SEEDS[0])


PROTOCOL = {name: {"data": data, **asdict(config)} for name, (data, config) in ARMS.items()}
STUDY = Frame(
    __file__,
    Arms(
        work,
        every(ARMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {"runs": list(runs.values()), "protocol": PROTOCOL},
    ).measure,
    head,
    STEP_TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
