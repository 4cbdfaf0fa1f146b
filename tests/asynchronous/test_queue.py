"""The queue: oldest first, nothing twice, nothing dropped in silence, back-pressure when full."""

import threading
from dataclasses import dataclass

import pytest

from nbkit.asynchronous.queue import GroupQueue, QueueClosedError

pytestmark = pytest.mark.chapter(35)
LIMIT_S = 60.0


@dataclass(frozen=True)
class Item:
    number: int
    oldest: int = 0


def filled(*items, capacity=8, staleness=1, policy="drop"):
    queue = GroupQueue(capacity, staleness, policy)
    for item in items:
        queue.put(item)
    return queue


def numbers(groups):
    return [group.number for group in groups]


def test_the_oldest_come_first_whatever_came_first():
    queue = filled(*(Item(n) for n in (4, 0, 3, 1)))
    assert numbers(queue.take(3, 0, LIMIT_S)) == [0, 1, 3]
    assert queue.numbers() == {4} and len(queue) == 1


def test_too_few_are_not_taken():
    queue = filled(Item(0), Item(1))
    assert queue.take(3, 0, 0.0) is None
    assert len(queue) == 2


def test_what_is_too_old_is_refused_counted_and_named():
    queue = filled(Item(0, 0), Item(1, 1), Item(2, 0), Item(3, 2))
    assert numbers(queue.take(2, 2, LIMIT_S)) == [1, 3]
    assert queue.dropped == 2 and queue.refused() == [0, 2] and queue.refused() == []
    assert len(queue) == 0


def test_news_of_refused_groups_ends_the_wait():
    queue = filled(Item(0, 0), Item(1, 0))
    assert queue.take(2, 2, LIMIT_S) is None
    assert queue.refused() == [0, 1]


def test_as_old_as_allowed_is_young_enough():
    queue = filled(Item(0, 1), staleness=3)
    assert numbers(queue.take(1, 4, LIMIT_S)) == [0]
    assert filled(Item(0, 1), staleness=3).take(1, 5, 0.0) is None


def test_keep_hands_out_what_is_old():
    queue = filled(Item(0, 0), policy="keep")
    assert numbers(queue.take(1, 9, LIMIT_S)) == [0]
    assert queue.dropped == 0


def test_a_number_stands_there_once():
    queue = filled(Item(0))
    assert queue.put(Item(0)) is False
    assert queue.repeated == 1 and queue.received == 1 and len(queue) == 1


def test_whoever_puts_in_waits_while_it_is_full_and_nothing_is_lost():
    queue = filled(Item(0), Item(1), capacity=2)
    done = threading.Event()

    def put():
        for number in (2, 3, 4):
            queue.put(Item(number))
        done.set()

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    assert not done.wait(0.2) and len(queue) == 2
    assert numbers(queue.take(2, 0, LIMIT_S)) == [0, 1]
    assert numbers(queue.take(2, 0, LIMIT_S)) == [2, 3]
    assert done.wait(LIMIT_S)
    assert numbers(queue.take(1, 0, LIMIT_S)) == [4]
    assert queue.received == 5 and queue.dropped == 0 and queue.full >= 1


def test_a_taker_waits_for_the_last_group():
    queue = filled(Item(0))
    threading.Timer(0.1, queue.put, [Item(1)]).start()
    assert numbers(queue.take(2, 0, LIMIT_S)) == [0, 1]


def test_waking_ends_the_wait_of_a_taker():
    queue = filled(Item(0))
    threading.Timer(0.1, queue.wake).start()
    assert queue.take(2, 0, LIMIT_S) is None and len(queue) == 1


@pytest.mark.parametrize("how", ["close", "give up"])
def test_ending_the_wait_of_whoever_puts_in(how):
    queue, given_up = filled(Item(0), capacity=1), threading.Event()
    if how == "close":
        threading.Timer(0.1, queue.close).start()
    else:
        given_up.set()
    with pytest.raises(QueueClosedError):
        queue.put(Item(1), given_up)
    assert queue.numbers() == {0}


def test_a_batch_that_never_fits_is_refused():
    with pytest.raises(ValueError, match="make capacity at least a batch"):
        filled(capacity=2).take(3, 0, LIMIT_S)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0, 1), "capacity"), ((1, -1), "staleness"), ((1, 1, "throw"), "policy")],
)
def test_bad_settings_are_named(arguments, named):
    with pytest.raises(ValueError, match=f"^{named} must"):
        GroupQueue(*arguments)
