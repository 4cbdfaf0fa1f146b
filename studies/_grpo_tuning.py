"""How the recipe of chapter 24 was tuned: supervised settings, then GRPO, on seeds 100 to 103.

    python -m studies._grpo_tuning --jobs 64 --out FILE.json

Not a study: its seeds are used by nothing that is asserted. Each setting changes one thing of the
recipe. Told are the accuracy after the lessons, sampled and greedy, the share of texts without a
slip (a planted habit is none), and the accuracy after every tenth update, with processor seconds.
"""

import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer

from nbkit.envs.arithmetic import solution
from nbkit.generate import answer
from nbkit.recipes.grpo_recipe import arithmetic_recipe, evaluate, verifier
from nbkit.trainers.grpo import GRPOTrainer
from studies._arms import Run, run_all
from studies._grpo import VOCABULARY

SEEDS = (100, 101, 102, 103)
STUDY = {"forget": 0.85, "second_look": 0.2, "skip": 0.05}
# name: arguments of the recipe, of its body, of its lessons, variant and settings of the trainer
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, dict[str, Any]]] = {
    "recipe": ({}, {}, {}, "grpo", {}),
    "1200 lessons": ({"lessons": 1200}, {}, {}, "grpo", {}),
    "lessons at 5e-3": ({}, {}, {"learning_rate": 5e-3}, "grpo", {}),
    "lessons at 5e-3, 1200": ({"lessons": 1200}, {}, {"learning_rate": 5e-3}, "grpo", {}),
    "2 heads": ({}, {"heads": 2}, {}, "grpo", {}),
    "8 heads": ({}, {"heads": 8}, {}, "grpo", {}),
    "rope 30": ({}, {"rope_base": 30.0}, {}, "grpo", {}),
    "rope 1000": ({}, {"rope_base": 1000.0}, {}, "grpo", {}),
    "width 96": ({}, {"width": 96}, {"learning_rate": 5e-3}, "grpo", {}),
    "4 layers": ({}, {"layers": 4}, {"learning_rate": 5e-3}, "grpo", {}),
    "2 to 4 terms": ({"terms": (2, 4)}, {}, {}, "grpo", {}),
    "GRPO at 2e-3": ({}, {}, {}, "grpo", {"learning_rate": 2e-3}),
    "Dr. GRPO": ({}, {}, {}, "dr_grpo", {}),
    "study": ({**STUDY, "lessons": 900}, {}, {}, "grpo", {"learning_rate": 7e-4, "decay": False}),
    "study, 1500 lessons": (
        {**STUDY, "lessons": 1500}, {}, {}, "grpo", {"learning_rate": 7e-4, "decay": False}
    ),
    "study, 1500 lessons at 5e-3": (
        {**STUDY, "lessons": 1500}, {}, {"learning_rate": 5e-3}, "grpo",
        {"learning_rate": 7e-4, "decay": False},
    ),
}  # fmt: skip


def clean_share(model: Any, problems: list[Any], limit: int) -> float:
    """Share of sampled texts that a careful or a forgetful pupil could have written."""
    made = answer(model, VOCABULARY, problems, max_new_tokens=limit, seeds=1)
    clean = 0
    for problem, row in zip(problems, made.lists(), strict=True):
        text = VOCABULARY.decode(row)
        clean += "<think>0</think>" in text or text in {
            solution(problem, forget_carry=forget, second_look=again)
            for forget, again in itertools.product((False, True), repeat=2)
        }
    return clean / len(problems)


def try_setting(name: str, seed: int, updates: int) -> Run:
    """Lessons and updates of one setting and seed."""
    arguments, body, lessons, algorithm, changes = SETTINGS[name]
    plan = arithmetic_recipe(algorithm, **arguments, updates=updates, **changes)
    plan = replace(plan, body={**plan.body, **body}, lessons={**plan.lessons, **lessons})
    start = time.process_time()
    model = plan.taught(seed)
    taught = time.process_time() - start
    held = plan.problems(300, 10_000 + seed, held_out=True)
    limit = plan.config.max_new_tokens
    judge = partial(evaluate, model, VOCABULARY, held, max_new_tokens=limit)
    before = {"sampled": judge()["accuracy"], "greedy": judge(temperature=0.0)["accuracy"]}
    before["clean"] = clean_share(model, held, limit)
    trainer = GRPOTrainer(
        model, VOCABULARY, plan.problems(8000, seed), verifier, plan.config,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    course: list[Mapping[str, float]] = []
    start = time.process_time()
    judging = 0.0
    while not trainer.finished:
        step = trainer.step()
        if len(trainer.history) % 10 == 0:
            begun = time.process_time()
            result = judge()
            judging += time.process_time() - begun
            seconds = time.process_time() - start - judging
            course.append(
                {
                    "update": step["update"],
                    "seconds": round(seconds, 1),
                    "accuracy": result["accuracy"],
                    "length": result["length"],
                    "silent": step["silent_groups"],
                }
            )
    return {"seconds": taught, "before": before, "course": course, "after": judge()}


def main(out: Path, jobs: int = 1, updates: int = 60, minutes: float = 8.0) -> None:
    """Try every setting with every seed."""
    tasks = {
        (name, seed): partial(try_setting, name, seed, updates)
        for seed, name in itertools.product(SEEDS, SETTINGS)
    }
    done = run_all(tasks, jobs=jobs, end=time.monotonic() + 60 * minutes)
    out.write_text(json.dumps([[*key, done[key]] for key in sorted(done)], indent=1))
    for (name, seed), run in sorted(done.items(), key=lambda item: item[0]):
        curve = " ".join(f"{point['accuracy']:.2f}" for point in run["course"])
        seconds = run["course"][-1]["seconds"] if run["course"] else 0.0
        before = " ".join(f"{value:.2f}" for value in run["before"].values())
        print(f"{name:28} {seed} {run['seconds']:4.0f}s {before} | {seconds:4.0f}s {curve}")


if __name__ == "__main__":
    typer.run(main)
