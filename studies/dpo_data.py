"""What the pairs do to DPO: flipped labels, a love of length, answers that are nearly the same.

Protocol, fixed before the run; the settings were found on seed 101. All arms of a seed start from
the same base and the same 4,000 pairs of its answers.

- "flipped": a share of 0.3 of the labels is turned round; DPO, conservative, robust, hinge, IPO.
- "longer": the label is "the longer answer wins"; DPO and IPO on sums and on averages a token.
- "twins": the rejected answer is a copy of the chosen one with one noun exchanged. The judge always
  prefers the original. With and without a term for the likelihood of the chosen answer, and beside
  the usual pairs ("policy") with the same settings.
"""

from dataclasses import asdict, replace
from typing import Any

from nbkit.recipes import dpo_runs as runs
from nbkit.recipes.dpo_recipe import LIVE, Base, flip_labels, longer_first, make_base, twins
from nbkit.trainers.dpo.config import DPOConfig
from studies._arms import Arms, every
from studies._dpo_head import STEP_TOLERANCES, first_steps
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
    "longer, dpo": ("longer", BASIS),
    "longer, dpo a token": ("longer", replace(BASIS, kind="sigmoid-average", beta=1.5)),
    "longer, ipo": ("longer", replace(BASIS, kind="ipo")),
    "longer, ipo a token": ("longer", replace(BASIS, kind="ipo-average", beta=1.0)),
    "twins, dpo": ("twins", HARD),
    "twins, dpo with sft": ("twins", replace(HARD, sft_coefficient=1.0)),
    "policy, dpo": ("clean", HARD),
}


def pairs_of(data: str, base: Base, seed: int) -> list[Any]:
    """The pairs of an arm's kind of data."""
    if data == "flipped":
        return flip_labels(base.pairs, FLIPPED, seed=seed)
    if data == "longer":
        return longer_first(base.pairs)
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
    found: dict[str, float] = {}
    for arm in ("clean, dpo", "flipped, robust", "longer, ipo a token", "twins, dpo with sft"):
        data, config = ARMS[arm]
        found |= first_steps(base, pairs_of(data, base, SEEDS[0]), config, SEEDS[0], arm)
    return found


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
