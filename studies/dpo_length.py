"""Does DPO lengthen answers that its labels do not ask to be longer? Sums against averages a token.

Protocol, fixed before the run. All arms of a seed start from the same base and the same 4,000 pairs
of its answers; the labels differ:

- "judge": the labels of the hidden judge, which depend on content;
- "balanced": of these, the pairs in which a longer chosen answer has a shorter partner, so that the
  label says nothing of length;
- "coin": every label drawn anew by a fair coin, so that it says nothing at all: what happens to the
  length is the loss's own;
- "longer": the longer answer wins, which no loss can know to be wrong.

DPO and IPO, each on the sum of an answer's log-ratios and on the average a token. An average of an
answer of ``TOKENS`` tokens is that much smaller than the sum, so its beta is that much larger: the
pull to the reference is then the same for an answer of this length.
"""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from nbkit.envs.helpful import Pair
from nbkit.recipes.dpo_recipe import (
    LIVE,
    Base,
    flip_labels,
    length_balanced,
    longer_first,
    make_base,
)
from nbkit.trainers.dpo.config import DPOConfig
from studies import _dpo_runs as runs
from studies._arms import Arms, every
from studies._dpo_head import STEP_TOLERANCES, first_of_arms
from studies._frame import Frame

SEEDS = (1, 2, 3, 4, 5)
TOKENS = 18  # of an answer of the base, on the mean
BASIS = replace(LIVE, steps=300)
BETA = 0.1
LOSSES = {
    "dpo": replace(BASIS, beta=BETA),
    "dpo per token": replace(BASIS, kind="sigmoid-average", beta=BETA * TOKENS),
    "ipo": replace(BASIS, kind="ipo", beta=BETA),
    "ipo per token": replace(BASIS, kind="ipo-average", beta=BETA * TOKENS),
}
LABELS = ("judge", "balanced", "coin", "longer")
ARMS: dict[str, tuple[str, DPOConfig]] = {
    f"{labels}, {name}": (labels, config) for labels in LABELS for name, config in LOSSES.items()
}


def pairs_of(labels: str, base: Base, seed: int) -> list[Pair]:
    """The pairs of an arm."""
    if labels == "balanced":
        return length_balanced(base.pairs, seed=seed)
    if labels == "coin":
        return flip_labels(base.pairs, 0.5, seed=seed)
    return longer_first(base.pairs) if labels == "longer" else list(base.pairs)


def said_of_length(pairs: list[Pair]) -> dict[str, float]:
    """What the labels say of length: how often the longer answer is chosen, and by how much."""
    words = np.array([[len(text.split()) for text in (p.chosen, p.rejected)] for p in pairs])
    gaps = words[:, 0] - words[:, 1]
    return {
        "pairs": len(pairs),
        "longer_chosen": float((gaps > 0).mean()),
        "shorter_chosen": float((gaps < 0).mean()),
        "gap_words": float(gaps.mean()),
    }


def work(arm: str, seed: int, device: str) -> dict[str, Any]:
    """One arm of one seed."""
    labels, config = ARMS[arm]
    base = make_base(seed, pairs=runs.PAIRS, device=device)
    pairs = pairs_of(labels, base, seed)
    trained = runs.run_dpo(base, pairs, config, seed)
    return {"arm": arm, "seed": seed, "labels": said_of_length(pairs), **trained}


def head() -> dict[str, float]:
    """The first steps of one arm of each kind of labels, from a short base."""
    base = make_base(SEEDS[0], pairs=96, sft_steps=60)
    arms = ("judge, dpo", "balanced, dpo per token", "coin, ipo", "longer, ipo per token")
    return first_of_arms(base, ARMS, arms, pairs_of, SEEDS[0])


PROTOCOL = {name: {"labels": labels, **asdict(config)} for name, (labels, config) in ARMS.items()}
STUDY = Frame(
    __file__,
    Arms(
        work,
        every(ARMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {"runs": list(runs.values()), "protocol": PROTOCOL},
        tell=lambda run: (
            f"length {run['curve'][0]['length']:.1f} -> {run['curve'][-1]['length']:.1f}"
        ),
    ).measure,
    head,
    # IPO's loss is the square of a distance of 5
    {**STEP_TOLERANCES, **{f"coin, ipo: gradient_norm {step}": 0.1 for step in (1, 2, 3)}},
)

if __name__ == "__main__":
    STUDY.main()
