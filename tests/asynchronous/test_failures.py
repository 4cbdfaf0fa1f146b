"""What fails, and what happens then: nothing is trained on twice, nothing lost, nothing hangs."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from nbkit.asynchronous.generator import GeneratorFailedError
from nbkit.asynchronous.versions import Mailbox
from tests.asynchronous import runs
from tests.asynchronous.runs import (
    asynchronous,
    each_once,
    settings,
    steps,
    synchronous,
    until,
    weights,
)
from tests.rlvr.small import PROBLEMS

pytestmark = [pytest.mark.slow, pytest.mark.chapter(35), pytest.mark.xdist_group("alone")]


def total(run, name):
    return sum(row[name] for row in run.history)


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_a_killed_generator_is_started_again_and_each_group_counts_once(staleness):
    own = settings(updates=6)
    with asynchronous(own, staleness=staleness) as run:
        numbers = steps(run, 2)
        runs.kill(run.process.pid)
        numbers += steps(run, 2)
        until(lambda: run.process.deliveries)
        runs.kill(run.process.pid)
        numbers += steps(run)
    assert each_once(numbers, own)
    assert run.restarts == total(run, "generator_restarts") >= 1 and run.ledger.open() == []
    assert max(row["staleness/max"] for row in run.history) <= staleness
    if staleness == 0:
        assert run.restarts == 2
        assert torch.equal(weights(synchronous(own)), weights(run))


def test_a_generator_that_is_silent_is_started_again():
    own = settings(updates=3)
    with asynchronous(own, staleness=0, wait_s=20.0) as run:
        numbers = steps(run, 1)
        os.kill(run.process.pid, signal.SIGSTOP)
        numbers += steps(run)
    assert each_once(numbers, own) and run.restarts >= 1
    assert torch.equal(weights(synchronous(own)), weights(run))


def test_a_generator_that_always_dies_ends_the_run_with_a_sentence():
    with (
        asynchronous(settings(), runs.dies, staleness=0, restarts=1) as run,
        pytest.raises(GeneratorFailedError, match="died, 2 times in a row without a delivery"),
    ):
        run.step()


def test_a_reward_function_that_fails_ends_the_run_with_its_error():
    with (
        asynchronous(settings(), runs.raises, staleness=0) as run,
        pytest.raises(GeneratorFailedError, match="no such answer key"),
    ):
        run.step()
    assert run.restarts == 0


def test_a_reward_function_that_waits_for_ever_leaves_its_group_unscored():
    own = settings(updates=3)
    problems = PROBLEMS[:12]  # each is asked once in the run
    with asynchronous(own, runs.waits_for_ever, problems, staleness=0, reward_limit_s=3.0) as run:
        numbers = steps(run)
    assert each_once(numbers, own) and run.restarts == 0
    assert total(run, "groups_unscored") == 1
    assert total(run, "unscored") == own.group_size


def test_a_full_queue_makes_the_generator_wait_and_loses_nothing():
    own = settings(updates=6)
    with asynchronous(own, staleness=3, capacity=own.prompts) as run:
        numbers = steps(run, 1)
        until(lambda: len(run.queue) == own.prompts and run.queue.full >= 1)
        until(lambda: run.queue.full >= 1 and state(run.process.pid)[0] == "S")
        before = state(run.process.pid)
        time.sleep(1.0)
        after = state(run.process.pid)
        assert after[0] == "S" and after[1] - before[1] <= 5  # hundredths of a second: it sleeps
        assert len(run.queue) == own.prompts
        numbers += steps(run)
    assert each_once(numbers, own)
    assert total(run, "groups_dropped") == 0 and total(run, "queue_full") >= 1


def state(pid):
    """State and processor time (user and system, in ticks) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("fault", ["torn", "lost"])
def test_weights_that_do_not_arrive_are_asked_for_again(fault, monkeypatch):
    own, plain, spoilt = settings(), Mailbox.publish, []

    def publish(mailbox, model, version):
        if version == 2 and not spoilt:
            spoilt.append(version)
            if fault == "lost":
                return
            plain(mailbox, model, version)
            mailbox._slots[0][3] ^= 1
            return
        plain(mailbox, model, version)

    monkeypatch.setattr(Mailbox, "publish", publish)
    with asynchronous(own, staleness=0) as run:
        numbers = steps(run)
        torn = run.process.torn
    assert each_once(numbers, own) and spoilt == [2]
    assert run.resent == total(run, "weights_resent") == 1 and run.restarts == 0
    assert torn == (1 if fault == "torn" else 0)
    assert torch.equal(weights(synchronous(own)), weights(run))


def test_weights_that_never_arrive_end_the_run_with_a_sentence(monkeypatch):
    plain = Mailbox.publish
    monkeypatch.setattr(
        Mailbox, "publish", lambda box, net, number: plain(box, net, number) if not number else None
    )
    with asynchronous(settings(), staleness=0) as run:
        run.step()
        with pytest.raises(GeneratorFailedError, match="version 1 were asked for 5 times"):
            run.step()


def test_a_group_that_is_too_old_is_asked_again(monkeypatch):
    """Groups of the first weights are held back until they are too old."""
    own = settings(updates=4)
    with asynchronous(own, staleness=1) as run:
        numbers = steps(run, 1)
        until(lambda: len(run.queue) >= own.prompts)  # the next batch may be there, too
        run.queue.staleness = 0  # as if the trainer had gone on meanwhile
        numbers += steps(run, 1)
        run.queue.staleness = 1
        numbers += steps(run)
    assert each_once(numbers, own)
    assert run.history[1]["groups_dropped"] == own.prompts
    assert run.history[1]["staleness/max"] == 0


def test_closing_ends_the_process_and_a_later_step_starts_another():
    own = settings(updates=2)
    run = asynchronous(own, staleness=1)
    numbers = steps(run, 1)
    first = run.process.pid
    run.close()
    assert not runs.alive(first) and run.process is None
    numbers += steps(run)
    second = run.process.pid
    run.close()
    run.close()
    assert each_once(numbers, own) and second != first and not runs.alive(second)
