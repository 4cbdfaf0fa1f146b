"""What the heads of GRPO's studies share: a few small updates of some arms."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nbkit.envs.arithmetic import corpus
from nbkit.recipes.grpo_recipe import supervised_loss
from nbkit.trainers.scoring import RewardFunction
from studies._flawed_rewards import PartMarks
from studies._frame import figures
from studies._grpo import (
    SEEDS,
    SMALL,
    VOCABULARY,
    Arm,
    Method,
    honest,
    load_base,
    recipe,
    train_grpo,
)

HEAD_METRICS = ("reward", "length", "entropy", "gradient_norm")
HEAD_TOLERANCES = {
    **{"reward": 2e-3, "length": 0.02, "entropy": 1e-3, "gradient_norm": 2e-3, "kl": 3e-4},
    "loss on careful texts": 1e-3,
}


def head_of(
    arms: Mapping[str, Arm], methods: Mapping[str, Method] | None = None
) -> dict[str, float]:
    """What CI repeats of some arms: a few small updates each, from hardly taught bases.

    Such a base answers nothing rightly, so that the verifier alone would teach it nothing: an
    honest arm is paid for the form instead.
    """
    methods = {"grpo": train_grpo, **(methods or {})}
    seed, found = SEEDS[0], {}
    texts = corpus(32, seed=1, forget=0.0, second_look=0.0, skip=0.0, terms=recipe("taught").terms)
    rows = [
        (VOCABULARY.encode(problem.prompt), [*VOCABULARY.encode(text), VOCABULARY.eos_id])
        for problem, text in texts
    ]

    def loss(model: Any) -> float:
        with torch.no_grad():
            return supervised_loss(model, rows, VOCABULARY.pad_id).item()

    with tempfile.TemporaryDirectory() as name:
        for base in sorted({arm.base for arm in arms.values()}):
            model = recipe(base, SMALL).taught(seed)
            torch.save(model.state_dict(), Path(name, f"{base}_{seed}.pt"))
            found[f"base {base}: loss on careful texts"] = loss(model)
        for title, arm in arms.items():
            small = changed(arm, prompts=max(1, arm.config.prompts // 4))
            if arm.reward is honest:
                small = replace(small, reward=paid_for_form)
            model, reference = (
                load_base(arm.base, seed, Path(name), SMALL, "cpu") for _ in range(2)
            )
            run = methods[arm.method](model, small, seed, SMALL, reference)
            steps = run.get("curve", {})
            shown = [key for key in (*HEAD_METRICS, "kl") if key in steps]
            history = [
                dict(zip(shown, values, strict=True))
                for values in zip(*(steps[key] for key in shown), strict=True)
            ]
            found |= figures(history, shown, title)
            found[f"{title}: loss on careful texts"] = loss(model)
    return found


def paid_for_form(seed: int) -> RewardFunction:
    """Marks for tags in their place, which a hardly taught model earns too."""
    return PartMarks("form", 1.0)


def changed(arm: Arm, **changes: Any) -> Arm:
    """An arm with other settings of the trainer."""
    return replace(arm, config=replace(arm.config, **changes))
