"""Intervals of talk and work; a step of two ranks is heard, one of a lone process is not taken."""

import pytest
import torch
import torch.distributed as dist

from nbkit.parallel import traffic
from nbkit.parallel.world import join
from tests.parallel import jobs

pytestmark = pytest.mark.chapter(34)


def test_union_and_what_nothing_hides():
    assert traffic.covered([]) == 0.0
    assert traffic.covered([(3.0, 4.0), (0.0, 2.0), (1.0, 2.5)]) == pytest.approx(3.5)
    talk, work = [(0.0, 2.0), (3.0, 4.0)], [(1.0, 3.5)]
    assert traffic.exposed(talk, work) == pytest.approx(1.5)
    assert traffic.exposed(talk, []) == pytest.approx(3.0)
    assert traffic.exposed([(1.0, 2.0)], [(0.0, 3.0)]) == pytest.approx(0.0)


def test_a_lone_process_takes_no_step():
    def step():
        raise AssertionError("a step was taken")

    assert traffic.watch(step, "cpu") == {"communication_s": 0.0, "exposed_s": 0.0}


def heard():
    """On each rank: what was heard of a step with a message, and of one without."""
    join("cpu")
    numbers = torch.ones(200_000)
    return (
        traffic.watch(lambda: dist.all_reduce(numbers), "cpu"),
        traffic.watch(lambda: numbers.sum(), "cpu"),
    )


@pytest.mark.slow
def test_messages_are_heard():
    for loud, silent in jobs.ranks(2, heard):
        assert 0.0 < loud["communication_s"] == loud["exposed_s"] < 10.0
        assert silent == {"communication_s": 0.0, "exposed_s": 0.0}
