"""Heads of studies prove something, hold on every rounding, and fail where the code is wrong."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from bookkit.authoring.draws import DRAWS
from bookkit.authoring.heads import (
    StudyMismatch,
    compare_head,
    proves_nothing,
    read_head,
    too_tight,
)

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = {
    **{"reinforce": 11, "ppo": 12, "rlhf": 21, "kl": 21, "dpo": 22, "grpo": 24},
    **{"manipulation": 41, "gsm8k": 24, "decode": 31, "hh": 21, "films": 12, "sums": 35},
}
OF_OTHERS = {
    "grpo_code": (23,),
    "grpo_knobs": (23, 24),
    "grpo_overlap": (35,),
    "grpo_staleness": (35,),
    "hh_comparison": (21, 22),
}  # against the first word of their name
NAMES = [path.stem for path in sorted((ROOT / "studies").glob("[!_]*.py"))]
STUDIES = [
    pytest.param(
        name,
        marks=pytest.mark.chapter(*OF_OTHERS.get(name, (CHAPTERS[name.split("_")[0]],))),
    )
    for name in NAMES
]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_head_proves_something_and_holds_on_every_rounding(name: str) -> None:
    stored, tolerances = read_head(ROOT, name), import_module(f"studies.{name}").STUDY.tolerances
    head = stored["head"]
    for wrong in (0.0, sum(head.values()) / len(head)):
        with pytest.raises(StudyMismatch):
            compare_head(head, dict.fromkeys(head, wrong), tolerances)
    assert proves_nothing(head, tolerances) == []
    assert stored["head_draws"] == list(DRAWS)
    assert stored["head_spread"].keys() == head.keys()
    assert too_tight(stored["head_spread"], tolerances) == []


def test_no_head_is_left_of_a_study_that_has_gone() -> None:
    assert sorted(path.stem for path in (ROOT / "studies/heads").glob("*.json")) == NAMES


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **options: 2 * function(*arguments, **options)


def shorter_trace(gae: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, lam, **options: gae(*arguments, lam=0.9 * lam, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "place", "wrong"),
    [
        ("kl_placement", "studies.kl_placement.policy_gradient_loss", twice),
        ("manipulation_rewards", "nbkit.control.rollouts.gae", shorter_trace),
        ("grpo_code", "nbkit.trainers.grpo.update.advantages", twice),
        ("grpo_staleness", "nbkit.trainers.grpo.update.importance_weights", twice),
    ],
)
def test_a_head_fails_where_the_code_is_wrong(
    name: str,
    place: str,
    wrong: Callable[[Callable[..., Any]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.set_num_threads(1)
    study = import_module(f"studies.{name}").STUDY
    study.check()
    module, _, attribute = place.rpartition(".")
    monkeypatch.setattr(place, wrong(getattr(import_module(module), attribute)))
    with pytest.raises(StudyMismatch):
        study.check()
