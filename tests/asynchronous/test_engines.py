"""The same loop in real processes: on Ray, and on Monarch where it is installed."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest
import torch

from nbkit.asynchronous.engines.controller import run
from nbkit.asynchronous.engines.monarch_engine import MonarchEngine, monarch_actor
from nbkit.asynchronous.engines.ray_engine import RayEngine, ray_module
from nbkit.recipes.async_recipe import arithmetic_learner
from tests.asynchronous.small_runs import PROMPTS, SMALL, UPDATES, synchronous_weights

pytestmark = [pytest.mark.chapter(35), pytest.mark.slow, pytest.mark.xdist_group("alone")]
ALL = list(range(UPDATES * PROMPTS))
LIMIT_S = 800.0  # a busy machine takes minutes to import torch in three processes


def there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(not there(name), reason=f"{name} is not installed: nbkit[async]"),
    )
    for name in ("ray", "monarch")
]


def engine_of(name: str, **arguments):
    made = SMALL | arguments
    if name == "ray":
        return RayEngine(arithmetic_learner, made, limit_s=LIMIT_S)
    return MonarchEngine(arithmetic_learner, made, limit_s=LIMIT_S)


@pytest.mark.parametrize("name", NAMES)
def test_four_updates_each_group_once_and_a_killed_generator(name: str) -> None:
    with engine_of(name, staleness=1) as engine:
        first = engine.pid()
        assert first != os.getpid()

        def kill(update: int) -> None:
            if update == 2:  # two batches are asked for, or on their way
                os.kill(first, signal.SIGKILL)

        report = run(engine, UPDATES, after_update=kill)
        assert engine.pid() != first
        _, version = engine.weights()
    assert report.restarts == 1
    assert report.numbers == ALL
    assert UPDATES < report.asked <= UPDATES + 2
    assert report.most_waiting <= 2
    assert version == UPDATES
    assert all(update.metrics["staleness/max"] <= 1 for update in report.updates)


@pytest.mark.parametrize("name", NAMES)
def test_staleness_of_zero_is_the_synchronous_trainer_to_the_bit(name: str) -> None:
    with engine_of(name, staleness=0) as engine:
        run(engine, UPDATES)
        found, _ = engine.weights()
    expected = synchronous_weights()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.skipif(not there("ray"), reason="ray is not installed: nbkit[async]")
def test_a_bundle_that_fits_nowhere_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"no room for two bundles of {'CPU': 1.0, 'GPU': 9"):
        RayEngine(arithmetic_learner, SMALL, gpus=9.0, limit_s=5.0)


@pytest.mark.parametrize(
    ("module", "call", "says"),
    [("ray", ray_module, "Ray is not installed"), ("monarch", monarch_actor, "Monarch is not")],
)
def test_without_the_package_a_sentence_says_how_to_get_it(
    module: str, call, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    monkeypatch.setitem(__import__("sys").modules, f"{module}.actor", None)
    with pytest.raises(ModuleNotFoundError, match=says):
        call()
