"""A policy that writes Python: unit tests as the reward, all or nothing against the share passed.

Protocol, fixed before the run: three seeds; both arms of a seed start from the same taught model (a
chance of 0.4 a line for a planted habit) and see the same 400 tasks in the same order: 40 updates
of 16 tasks with 8 programs each, GRPO without KL, learning rate 1e-3 falling to a tenth. Every
program is judged by eight unit tests in the sandbox. In the end 200 held-out tasks get one program
each; "accuracy" is the share that passes all tests. Settings were tried on seed 100, binary.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from nbkit.envs.expressions import CodeRewards, FunctionTask, draw_tasks
from nbkit.rewards.pool import SandboxPool
from nbkit.trainers.scoring import Completion
from studies._arms import Arms, Key, Run, by_arm, seed_by_seed
from studies._code_task import LIMIT, code_trainer, evaluate_code, taught_coder
from studies._frame import Frame, first_updates
from studies._grpo import curve
from studies._grpo_head import HEAD_METRICS, HEAD_TOLERANCES
from studies._intervals import interval

SEEDS = (1, 2, 3)
ARMS = ("binary", "graded")
UPDATES, LESSONS, HELD_OUT = 40, 350, 200
GAIN = 0.2  # of accuracy, that every seed of "binary" must reach


def run_arm(
    arm: str, seed: int, weights: dict[str, Any], model: Any, updates: int, held_out: int, jobs: int
) -> dict[str, Any]:
    """Train one seed of one arm from the taught weights and judge it."""
    model.load_state_dict(weights)
    asked = draw_tasks(held_out, seed=10_000 + seed, held_out=True)
    with SandboxPool(jobs) as pool:
        rewards = CodeRewards(pool, reward=arm)
        before = evaluate_code(model, asked, rewards, seed=seed)
        trainer = code_trainer(model, rewards, seed, updates=updates)
        start = time.perf_counter()
        history = trainer.run(progress=False)
        seconds = time.perf_counter() - start
        after = evaluate_code(model, asked, rewards, seed=seed)
    shares = [round(step["reward/share"], 4) for step in history]
    return {
        "seed": seed,
        "before": before,
        "after": after,
        "seconds": round(seconds, 1),
        "seconds in the sandbox": round(sum(step["seconds/reward"] for step in history), 1),
        "programs asked": rewards.asked,
        "programs judged": rewards.judged,
        "curve": {**curve(history), "share": shares},
    }


def brevity(tasks: Sequence[FunctionTask], written: Sequence[Completion]) -> list[float]:
    """A reward that needs no sandbox: the share of the limit that was not used."""
    return [1 - completion.length / LIMIT for completion in written]


def head() -> dict[str, float]:
    """Lessons, tasks, and three updates paid for brevity: the sandbox is not everywhere."""
    model = taught_coder(SEEDS[0], lessons=12)
    tasks = draw_tasks(50, seed=SEEDS[0])
    found = {f"value {i}": float(task.value(3, -4)) for i, task in enumerate(tasks[:8])}
    trainer = code_trainer(model, brevity, SEEDS[0])
    return found | first_updates(trainer, 3, HEAD_METRICS)


SANDBOXES = 2  # programs judged at a time


@lru_cache(1)
def taught(seed: int) -> tuple[Any, dict[str, Any]]:
    """The model of a seed, which both arms train in turn, and the weights that they start from."""
    model = taught_coder(seed, lessons=LESSONS)
    return model, {name: x.clone() for name, x in model.state_dict().items()}


def one_run(arm: str, seed: int) -> Run:
    """One arm of one seed."""
    model, weights = taught(seed)
    return run_arm(arm, seed, weights, model, UPDATES, HELD_OUT, SANDBOXES)


def summed_up(runs: dict[Key, Run]) -> dict[str, Any]:
    """Intervals of each arm, and of their difference."""
    arms = by_arm(runs)
    rows: dict[str, Any] = {
        arm: {
            when: {
                key: interval([run[when][key] for run in some])
                for key in ("accuracy", "share", "length")
            }
            for when in ("before", "after")
        }
        for arm, some in arms.items()
    }
    pairs = zip(arms["graded"], arms["binary"], strict=True)
    rows["graded minus binary"] = interval(
        [a["after"]["accuracy"] - b["after"]["accuracy"] for a, b in pairs]
    )
    return {"summary": rows, "arms": arms, "gain": GAIN}


def learned(arms: dict[str, list[Run]]) -> Iterator[str]:
    """What each seed of "binary" gained.

    Raises:
        SystemExit: less than ``GAIN``.

    """
    for run in arms["binary"]:
        gain = run["after"]["accuracy"] - run["before"]["accuracy"]
        yield f"binary, seed {run['seed']}: gained {gain:.3f}"
        if gain < GAIN:
            raise SystemExit(f"seed {run['seed']} gained {gain:.3f}; {GAIN} was asked for")


TOLERANCES = {**HEAD_TOLERANCES, "value": 0.0}
STUDY = Frame(
    __file__,
    Arms(
        one_run,
        seed_by_seed(ARMS, SEEDS),
        {"arms": ARMS, "updates": UPDATES, "lessons": LESSONS, "held_out": HELD_OUT},
        result=summed_up,
        tell=lambda run: f"{run['before']} -> {run['after']}",
        verdict=learned,
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
