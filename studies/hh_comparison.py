"""One fair comparison on real data: six ways to use comparisons, from one start, SmolLM2-135M.

Protocol, fixed before the run. The data are HH-RLHF's harmless-base, its test part, split by prompt
(``studies/_hh_data.py``). Stage 1 teaches the chosen answers of one half; stage 2 makes a
reward model of the same half (proxy) and one of the other half (gold); of two learning rates each
takes the one with the higher accuracy on the tuning pairs. Then best of n, RLOO, PPO, DPO, SimPO
and online DPO begin from the same weights and see the same comparisons or their prompts. Each
trained method has three settings, each run once, on one seed; the one whose gold is highest on the
tuning prompts at the end is run on three other seeds and measured on the test prompts. The seconds
of an update are measured for one method after the other, each alone on the GPU.

The weights are 4-bit, dequantised (`nbkit model fetch smollm2-135m`); the file of comparisons is
named by the variable NBKIT_HH, or comes from the hub. Needs a GPU. What has ended is kept, and the
same command goes on with the rest; stages 1 and 2 lie in the folder ``--start`` and are made anew
where it is gone.
"""

import gc
import math
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.study import start_study
from nbkit.data.pretrained import MODELS
from nbkit.envs.helpful import HelpfulVocabulary, encode_pairs, preference_pairs
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.reward_model import example_scores
from studies import _hh_data
from studies._arms import (
    Key,
    Run,
    all_of,
    by_arm,
    every,
    partial_file,
    run_all,
    spread_over,
    what_runs,
)  # fmt: skip
from studies._frame import Frame, first_updates
from studies._hh import (
    BATCH,
    METHODS,
    PAIRS,
    STEPS,
    UPDATES,
    World,
    best_of_n,
    course,
    speed,
    trainer_of,
)
from studies._hh_data import JUDGE_RATES, JUDGES, LESSONS
from studies._hh_start import JUDGE_NAMES, MODEL, SEED, load, prepare

TUNING_SEED, SEEDS = SEED, (81, 82, 83)
BEST = "best of n"
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "PPO": [
        {"learning_rate": 1e-5, "kl_coefficient": 0.05},
        {"learning_rate": 1e-5, "kl_coefficient": 0.2},
        {"learning_rate": 3e-6, "kl_coefficient": 0.05},
    ],
    "online DPO": [
        {"learning_rate": 1e-5, "beta": 0.1},
        {"learning_rate": 1e-5, "beta": 0.4},
        {"learning_rate": 3e-6, "beta": 0.1},
    ],
    "RLOO": [
        {"learning_rate": 1e-5, "kl_coefficient": 0.05},
        {"learning_rate": 1e-5, "kl_coefficient": 0.2},
        {"learning_rate": 3e-6, "kl_coefficient": 0.05},
    ],
    "DPO": [
        {"learning_rate": 1e-5, "beta": 0.1},
        {"learning_rate": 1e-5, "beta": 0.4},
        {"learning_rate": 3e-5, "beta": 0.1},
    ],
    "SimPO": [
        {"learning_rate": 1e-5, "beta": 2.0, "simpo_margin": 1.0},
        {"learning_rate": 3e-6, "beta": 2.0, "simpo_margin": 1.0},
        {"learning_rate": 1e-5, "beta": 10.0, "simpo_margin": 3.0},
    ],
}
KEPT = (466, 1867, 1894, 2173)  # rows of the data whose answers are stored; none offends


def judged(_: int, folder: Path, device: str) -> Run:
    """How good both reward models are on the test pairs, and how far they agree there."""
    world, sides, digests = load(folder, device)
    pad = world.vocabulary.pad_id
    answers = _hh_data.answers_of(sides.test)
    proxy, gold = (example_scores(one, answers, pad_id=pad) for one in (world.proxy, world.gold))
    gaps = [scores.view(-1, 2).diff(dim=1)[:, 0] < 0 for scores in (proxy, gold)]
    return {
        "pairs": {name: len(getattr(sides, name)) for name in ("proxy", "gold", "tuning", "test")},
        "right": {name: int(gap.sum()) for name, gap in zip(JUDGE_NAMES, gaps, strict=True)},
        "agree": int((gaps[0] == gaps[1]).sum()),
        "correlation": torch.corrcoef(torch.stack([proxy, gold]).double())[0, 1].item(),
        "start": digests,
    }


def timed(method: str, _: int, folder: Path, device: str) -> Run:
    """Seconds of a method's updates, which nothing runs beside."""
    found = speed(load(folder, device)[0], method, SETTINGS[method][0])
    gc.collect()  # this process stays, and the runs need its memory
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return found


def run(
    method: str, seed: int, settings: dict[str, Any], tuning: bool, folder: Path, device: str
) -> Run:
    """One run, on the prompts that choose settings or on those of the test."""
    world, sides, digests = load(folder, device)
    asked = sides.tuning if tuning else sides.test
    if method == BEST:
        return {**best_of_n(world, asked, seed=seed), "start": digests}
    return {**course(world, method, seed, settings, asked, kept=KEPT), "start": digests}


def measure(
    out: Path,
    jobs: int = 1,
    device: str = "cuda",
    minutes: float = math.inf,
    start: Path | None = None,
) -> None:
    """Run the study and write its stamped result.

    Args:
        out: the result file; what has ended lies beside it until all has.
        jobs: runs at a time, each in a process of its own.
        device: of the models; "cuda": the GPUs in turn.
        minutes: no run begins later; the same command goes on with what is left.
        start: folder of stages 1 and 2; made where it is missing.

    """
    end = time.monotonic() + 60 * minutes
    study = start_study(out, seeds=[TUNING_SEED, *SEEDS], config=protocol())
    folder = start or Path(tempfile.gettempdir()) / "hh_comparison_start"
    facts = prepare(folder, jobs, device)
    kept = partial_file(out)
    ended = partial(run_all, kept=kept, of=what_runs(study.provenance), end=end)
    place = partial(spread_over, device)

    alone: dict[Key, Any] = {("judges", 0): partial(judged, 0, folder, place(0))}
    alone |= {(f"speed: {name}", 0): partial(timed, name, 0, folder, place(0)) for name in METHODS}
    single = all_of(ended(alone, jobs=1), alone, "judges and speeds")
    tuning = {
        (f"tuning: {name} {number}", TUNING_SEED): partial(
            run, name, TUNING_SEED, SETTINGS[name][number], True, folder, place(number)
        )
        for name in METHODS
        for number in range(len(SETTINGS[name]))
    }
    tried = all_of(ended(tuning, jobs=jobs, tell=told), tuning, "tuning")
    found = {
        name: [tried[f"tuning: {name} {i}", TUNING_SEED] for i in range(len(SETTINGS[name]))]
        for name in METHODS
    }
    best = {
        name: max(runs, key=lambda one: one["points"][-1]["gold"])["settings"]
        for name, runs in found.items()
    }
    final: dict[Key, Any] = {
        (name, seed): partial(run, name, seed, best.get(name, {}), False, folder, place(number))
        for number, (name, seed) in enumerate(every([*METHODS, BEST], SEEDS))
    }
    arms = by_arm(all_of(ended(final, jobs=jobs, tell=told), final, "runs"))
    study.finish(
        {
            "judges": single["judges", 0],
            "units": facts["units"],
            "speed": {name: single[f"speed: {name}", 0] for name in METHODS},
            "tuning": found,
            "chosen": best,
            "arms": arms,
        }
    )
    kept.unlink()
    for name, runs in arms.items():
        print(name, "; ".join(told(one) for one in runs), flush=True)


def told(one: Run) -> str:
    """The end of a run in a line."""
    last = one["points"][-1]
    names = ("kl", "kl_bound", "gold", "proxy", "length")
    return ", ".join(f"{name} {last[name]:.2f}" for name in names if name in last)


def head() -> dict[str, float]:
    """Two updates of each method in the small world of chapter 21, on a tiny model."""
    vocabulary = HelpfulVocabulary()
    pairs = encode_pairs(preference_pairs(96, seed=SEEDS[0]), vocabulary)
    start = tiny_model(vocabulary, seed=SEEDS[0], max_length=64)
    few = replace(JUDGES, steps=6, batch_size=16)
    proxy, gold = (
        _hh_data.judge_of(
            start, some, pairs[64:], vocabulary.pad_id, rate=3e-3, seed=SEEDS[0], settings=few
        )
        for some in (pairs[:32], pairs[32:64])
    )
    world = World(start.requires_grad_(False), proxy, gold, vocabulary, pairs[:32])
    small = {"sampler_dtype": None, "max_new_tokens": 20, "learning_rate": 1e-3}
    changes: dict[str, dict[str, Any]] = {
        "PPO": {**small, "prompts": 16},
        "online DPO": {**small, "prompts": 8},
        "RLOO": {**small, "prompts": 4},
        "DPO": {"learning_rate": 1e-3, "batch_size": 16},
        "SimPO": {"learning_rate": 1e-3, "batch_size": 16},
    }
    found: dict[str, float] = {}
    for method, settings in changes.items():
        trainer, _ = trainer_of(world, method, SEEDS[0], settings)
        names = (
            ("loss", "gradient_norm") if "prompts" not in settings else ("reward", "gradient_norm")
        )
        found |= first_updates(trainer, 2, names, method)
    return found


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    source = MODELS[MODEL]
    return {
        "model": {"name": MODEL, "remark": source.remark, "sha256": source.member_sha256},
        "data": {"name": "HH-RLHF harmless-base, test part", "hub": _hh_data.HUB},
        "limits": {"prompt": _hh_data.PROMPT, "answer": _hh_data.ANSWER},
        "lessons": asdict(LESSONS),
        "judges": asdict(JUDGES) | {"rates": JUDGE_RATES},
        "batch": BATCH,
        "updates": UPDATES,
        "pairs": PAIRS,
        "steps": STEPS,
        "settings": SETTINGS,
    }


# A tiny model's figures move with the rounding; its gradients most.
TOLERANCES = {"loss": 1e-3, "reward": 1e-3, "gradient_norm": 1e-2}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
