"""Seven variants of GRPO and PPO where their claims can fail: the numbers game, with free length.

Protocol, fixed before the run. A transformer of eleven million parameters is taught games of a
planted player that guesses, gives up early and knows one shape of solution
(``nbkit.envs.countdown``). Then each algorithm gets the same budget of sampled tokens from the same
base, on three paired seeds, with four minibatches a batch, so that ratios leave 1 and clips act; no
KL term. The learning rate of each algorithm is chosen from ``RATES`` on a seed of its own, with
half of the budget, by the accuracy on held-out games.

Further arms change one thing of GRPO: an upper clip of 0.28 ("clip higher"); a limit of 80 tokens,
which cuts off long answers, alone, with DAPO's penalty, and with truncated answers left out of the
loss; a budget three times as large ("long run"), for entropy and for pass@k.

Measured before and after: 64 answers to each of 200 held-out games of each kind, among them games
that nothing in the corpus shows how to win. Needs a GPU.
"""

import math
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bookkit.authoring.study import start_study
from studies._arms import Run, all_of, by_arm, partial_file, run_all, spread_over, what_runs
from studies._countdown import (
    KINDS,
    PPO,
    SMALL,
    WHOLE,
    Judge,
    Scale,
    learn,
    load_base,
    protocol,
    teach_base,
    trainer_of,
)
from studies._frame import Frame, first_updates

TUNING_SEED, SEEDS = 61, (71, 72, 73)
RATES = (1e-4, 3e-4)
ALGORITHMS = {
    "GRPO": "grpo", "Dr. GRPO": "dr_grpo", "RLOO": "rloo", "REINFORCE++": "reinforce++",
    "DAPO": "dapo", "GSPO": "gspo", "CISPO": "cispo", PPO: PPO,
}  # fmt: skip
TIGHT = 80
CHANGES: dict[str, dict[str, Any]] = {
    "GRPO, clip higher": {"clip_high": 0.28},
    "GRPO, tight limit": {"max_new_tokens": TIGHT},
    "GRPO, tight limit, penalty": {"max_new_tokens": TIGHT, "overlong_buffer": TIGHT // 5},
    "GRPO, tight limit, masked": {"max_new_tokens": TIGHT, "mask_truncated": True},
    "GRPO, long run": {},
}
LONG = 3  # budgets
BASE = "base"


def tune(arm: str, seed: int, rate: float, folder: Path, scale: Scale, device: str) -> Run:
    """Half of the budget at one learning rate."""
    half = replace(scale, budget=scale.budget // 2)
    return learn(ALGORITHMS[arm], {"learning_rate": rate}, seed, folder, half, device)


def one_run(arm: str, seed: int, rate: float, folder: Path, scale: Scale, device: str) -> Run:
    """One arm from the base of its seed."""
    name, changes = ALGORITHMS.get(arm, "grpo"), CHANGES.get(arm, {})
    if arm == "GRPO, long run":
        scale = replace(scale, budget=LONG * scale.budget)
    return learn(name, {"learning_rate": rate, **changes}, seed, folder, scale, device)


def accuracy(run: Run) -> float:
    """Over the kinds of games that are trained on."""
    return sum(run[kind]["accuracy"] for kind in list(KINDS)[:2]) / 2


def told(run: Run) -> str:
    """The accuracy of a run in a line."""
    pairs = run["four numbers in pairs"]
    return f"accuracy {accuracy(run):.3f}, in pairs {pairs['accuracy']:.3f}"


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
        start: folder of the bases; made where it is missing.

    """
    end = time.monotonic() + 60 * minutes
    study = start_study(out, seeds=[TUNING_SEED, *SEEDS], config=described())
    folder = start or Path(tempfile.gettempdir()) / "grpo_countdown_bases"
    ended = partial(
        run_all, jobs=jobs, kept=partial_file(out), of=what_runs(study.provenance), end=end,
        tell=told,
    )  # fmt: skip
    place = partial(spread_over, device)

    lessons = {
        (BASE, seed): partial(teach_base, seed, folder, WHOLE, place(number))
        for number, seed in enumerate((TUNING_SEED, *SEEDS))
    }
    if missing := [key for key in lessons if not (folder / f"base_{key[1]}.pt").is_file()]:
        partial_file(out).unlink(missing_ok=True)  # runs from bases that are gone
        print(f"{len(missing)} bases are to be taught", flush=True)
    bases = all_of(ended(lessons), lessons, "bases")
    tries = {
        (f"{arm} at {rate:g}", TUNING_SEED): partial(
            tune, arm, TUNING_SEED, rate, folder, WHOLE, place(number)
        )
        for number, (arm, rate) in enumerate((a, r) for r in RATES for a in ALGORITHMS)
    }
    tuned = all_of(ended(tries), tries, "tuning")
    chosen = {
        arm: max(RATES, key=lambda rate: accuracy(tuned[f"{arm} at {rate:g}", TUNING_SEED]))
        for arm in ALGORITHMS
    }
    names = ["GRPO, long run", *ALGORITHMS, *(arm for arm in CHANGES if arm != "GRPO, long run")]
    tasks = {
        (arm, seed): partial(
            one_run, arm, seed, chosen.get(arm, chosen["GRPO"]), folder, WHOLE, place(number)
        )
        for number, (seed, arm) in enumerate((s, a) for s in SEEDS for a in names)
    }
    runs = all_of(ended(tasks), tasks)
    study.finish(
        {
            "bases": by_arm(bases)[BASE],
            "tuning": by_arm(tuned),
            "learning_rates": chosen,
            "arms": by_arm(runs),
        }
    )
    partial_file(out).unlink()


def head() -> dict[str, float]:
    """Two updates of some arms from a hardly taught base, paid for the length of an answer."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teach_base(SEEDS[0], folder, SMALL, "cpu")
        for arm in ("GRPO", "DAPO", "GSPO", "CISPO", PPO):
            model = load_base(SEEDS[0], folder, SMALL, "cpu")
            changes = {"learning_rate": 1e-3, "minibatches": 2}
            trainer = trainer_of(ALGORITHMS[arm], model, PaidByLength(), changes, SEEDS[0], SMALL)
            found |= first_updates(trainer, 2, ("reward", "length", "entropy"), arm)
    return found


class PaidByLength(Judge):
    """A hardly taught base wins no game, so that the game's own reward would show nothing."""

    def __call__(self, games: Any, completions: Any) -> Any:
        """A hundredth a character."""
        rewards = super().__call__(games, completions)
        return [
            replace(one, total=len(completion.text) / 100)
            for one, completion in zip(rewards, completions, strict=True)
        ]


def described() -> dict[str, Any]:
    """The protocol, for the stamp."""
    return protocol(WHOLE, {**{a: {"variant": n} for a, n in ALGORITHMS.items()}, **CHANGES}) | {
        "rates": RATES, "long": LONG,
    }  # fmt: skip


TOLERANCES = {"reward": 2e-3, "length": 0.05, "entropy": 2e-3}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
