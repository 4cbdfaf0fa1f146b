"""The rule of admission, by hand and by its purpose: no batch is older than it may be."""

import random

import pytest

from nbkit.asynchronous.capacity import admitted, may_start, oldest_in_batch

pytestmark = pytest.mark.chapter(35)


def test_the_numbers_of_a_small_case():
    assert [admitted(v, 4, 0) for v in range(3)] == [4, 8, 12]
    assert [admitted(v, 4, 2) for v in range(3)] == [12, 16, 20]
    assert may_start(5, 0, 4, 1) == 3
    assert may_start(8, 0, 4, 1) == 0
    assert may_start(8, 1, 4, 1) == 4
    assert may_start(8, 1, 4, 1, last=10) == 2
    assert may_start(10, 5, 4, 1, last=10) == 0
    assert [oldest_in_batch(v, 2) for v in range(5)] == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_in_order_no_group_is_older_than_the_bound_and_the_bound_is_met(staleness):
    """A generator that always starts what it may, and one that starts at random moments."""
    for eager in (True, False):
        draw, batch, updates = random.Random(staleness), 3, 30
        started: list[int] = []  # version at which group n was started
        oldest = []
        for version in range(updates):
            while len(started) < (version + 1) * batch or draw.random() < 0.9 or eager:
                if not may_start(len(started), version, batch, staleness, last=updates * batch):
                    break
                started.append(version)
            own = started[version * batch : (version + 1) * batch]
            assert min(own) >= oldest_in_batch(version, staleness)
            oldest.append(version - min(own))
        assert max(oldest) == staleness
        assert len(started) == updates * batch


def test_one_group_more_would_be_too_old():
    version, batch, staleness = 4, 3, 2
    first_refused = admitted(version, batch, staleness)
    assert first_refused // batch - version == staleness + 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((-1, 4, 1), "version"), ((0, 0, 1), "batch_size"), ((0, 4, -1), "staleness")],
)
def test_bad_numbers_are_named(arguments, named):
    with pytest.raises(ValueError, match=f"^{named} must"):
        admitted(*arguments)


def test_more_started_than_was_ever_allowed_is_an_error():
    with pytest.raises(ValueError, match="at version 1 at most 12 groups"):
        may_start(13, 1, 4, 1)
