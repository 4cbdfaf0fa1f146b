"""What the pairs do to DPO: flipped labels, a love of length, answers that are nearly the same.

Protocol, fixed before the run; the settings were found on seed 101. All arms of a seed start from
the same base and the same 4,000 pairs of its answers.

- "flipped": a share of 0.3 of the labels is turned round; DPO, conservative, robust, hinge, IPO.
- "longer": the label is "the longer answer wins"; DPO and IPO on sums and on averages a token.
- "twins": the rejected answer is a copy of the chosen one with one noun exchanged. The judge always
  prefers the original. With and without a term for the likelihood of the chosen answer, and beside
  the usual pairs ("policy") with the same settings.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.authoring.study import compare_head, start_study
from nbkit.trainers import dpo_runs as runs
from nbkit.trainers.dpo_config import DPOConfig
from nbkit.trainers.dpo_recipe import LIVE, flip_labels, longer_first, make_base, twins

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


def work(task: tuple[str, int, str]) -> dict[str, Any]:
    """One arm of one seed."""
    arm, seed, device = task
    data, config = ARMS[arm]
    base = make_base(seed, pairs=runs.PAIRS, device=device)
    pairs = base.pairs
    if data == "flipped":
        pairs = flip_labels(pairs, FLIPPED, seed=seed)
    elif data == "longer":
        pairs = longer_first(pairs)
    elif data == "twins":
        pairs = twins(pairs, seed=seed)
    return {
        "arm": arm,
        "seed": seed,
        "pairs": len(pairs),
        **runs.run_dpo(base, pairs, config, seed),
    }


def head() -> list[float]:
    """Return the first figures of the study, from a short base; CI repeats them."""
    base = make_base(SEEDS[0], pairs=64, sft_steps=60)
    config = replace(BASIS, steps=4, batch_size=8)
    run = runs.run_dpo(base, longer_first(base.pairs), config, SEEDS[0], points=1)
    return [*run["log"]["loss"], *run["log"]["logp_chosen"]]


def main(
    out: Path = Path("studies/results/dpo_data.json"),
    device: str = "cpu",
    jobs: int = 1,
    check: bool = False,
) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.05)
        return
    protocol = {name: {"data": data, **asdict(config)} for name, (data, config) in ARMS.items()}
    study = start_study(out, seeds=SEEDS, config=protocol)
    pairs = [(arm, seed) for arm in ARMS for seed in SEEDS]
    tasks = [(a, s, runs.spread_over(device, number)) for number, (a, s) in enumerate(pairs)]
    study.finish({"runs": runs.pool(work, tasks, jobs), "protocol": protocol, "head": head()})


if __name__ == "__main__":
    typer.run(main)
