"""The loop over two actors, without processes: counts, order, failure, staleness 0 to the bit."""

from __future__ import annotations

import pytest
import torch

from nbkit.asynchronous.engines.controller import GeneratorLostError, run
from nbkit.asynchronous.engines.roles import GeneratorRole
from tests.asynchronous.small_runs import (
    PROMPTS,
    SMALL,
    UPDATES,
    LocalEngine,
    synchronous_weights,
)

pytestmark = pytest.mark.chapter(35)
ALL = list(range(UPDATES * PROMPTS))


def ages(report) -> list[float]:
    return [update.metrics["staleness/max"] for update in report.updates]


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_each_ticket_once_and_no_token_older_than_allowed(staleness: int) -> None:
    engine = LocalEngine(SMALL | {"staleness": staleness})
    report = run(engine, UPDATES)
    assert report.numbers == ALL
    assert report.asked == UPDATES and report.restarts == 0
    assert report.most_waiting == staleness + 1
    assert ages(report) == [min(update, staleness) for update in range(UPDATES)]
    assert engine.loads == sorted(engine.loads)
    assert engine.learner.trainer.ledger.open() == []


def test_staleness_of_zero_is_the_synchronous_trainer_to_the_bit() -> None:
    engine = LocalEngine(SMALL | {"staleness": 0})
    report = run(engine, UPDATES)
    assert all(update.metrics["gradient_norm"] > 0 for update in report.updates)
    expected = synchronous_weights()
    found, version = engine.learner.weights()
    assert version == UPDATES
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_generator_is_asked_again_by_the_same_tickets(lost: int) -> None:
    engine = LocalEngine(SMALL | {"staleness": 1}, lose=frozenset({lost}))
    report = run(engine, UPDATES)
    assert engine.lost == report.restarts == 1
    assert report.numbers == ALL  # none twice, none lost
    assert UPDATES < report.asked <= UPDATES + 2
    assert max(ages(report)) <= 1


def test_lost_at_staleness_zero_changes_no_bit() -> None:
    engine = LocalEngine(SMALL | {"staleness": 0}, lose=frozenset({2}))
    run(engine, UPDATES)
    expected, found = synchronous_weights(), engine.learner.weights()[0]
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_too_many_lost_generators_end_the_run() -> None:
    engine = LocalEngine(SMALL | {"staleness": 1}, lose=frozenset({2, 3}))
    with pytest.raises(GeneratorLostError):
        run(engine, UPDATES, restarts=1)
    assert engine.learner.trainer.done == 1


def test_groups_of_other_tickets_are_refused() -> None:
    engine = LocalEngine(SMALL)
    engine.receipt = lambda asked: [7, 8]
    with pytest.raises(ValueError, match=r"groups \[7, 8\] came for the tickets \[0, 1\]"):
        run(engine, 1)


def test_a_group_that_comes_twice_is_refused_by_the_ledger() -> None:
    engine = LocalEngine(SMALL)
    orders = engine.issue()[0]
    engine.publish()
    asked = engine.ask(orders)
    engine.receipt(asked)
    engine.learn(asked)
    with pytest.raises(ValueError, match="was trained on before"):
        engine.learn(asked)


def test_a_generator_without_weights_or_with_older_ones_says_so() -> None:
    engine = LocalEngine(SMALL)
    generator = GeneratorRole(engine.learner.task())
    orders = engine.issue()[0]
    with pytest.raises(ValueError, match="weights of version 0 are needed, and version -1 is here"):
        generator.answer(orders)
    state, _ = engine.learner.weights()
    generator.load((state, 3))
    with pytest.raises(ValueError, match="version 2 came after those of 3"):
        generator.load((state, 2))


def test_a_snapshot_does_not_move_with_the_next_step() -> None:
    engine = LocalEngine(SMALL)
    state, _ = engine.learner.weights()
    before = {name: tensor.clone() for name, tensor in state.items()}
    with torch.no_grad():
        for parameter in engine.learner.trainer.model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(state[name], before[name]) for name in before)
