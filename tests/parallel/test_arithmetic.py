"""What needs one process: streams, ports, buckets, bytes and messages counted by hand."""

import socket

import pytest

from nbkit.memory import traffic_bytes, zero_bytes
from nbkit.parallel.by_hand.buckets import make_buckets
from nbkit.parallel.by_hand.handover import sent_elements
from nbkit.parallel.by_hand.ring import bytes_sent
from nbkit.parallel.ports import reserved_port
from nbkit.parallel.streams import GlobalBatches, mine, rank_seed

pytestmark = pytest.mark.chapter(32, 33, 34)


def test_seeds_of_runs_and_ranks_never_meet():
    seen = {rank_seed(seed, rank, s) for seed in range(9) for rank in range(9) for s in ("a", "b")}
    assert len(seen) == 2 * 81
    assert all(0 <= seed < 2**63 for seed in seen)


def test_each_item_once_an_epoch_also_after_a_resume_d19():
    first = GlobalBatches(64, 4, seed=1)
    seen = [item for _ in range(5) for item in first.next()]
    second = GlobalBatches(64, 4, seed=1)
    second.load_state_dict(first.state_dict())
    seen += [item for _ in range(11) for item in second.next()]
    assert sorted(seen) == list(range(64))
    assert second.next() + second.next() != seen[:8]
    assert first.order(0) != first.order(1)


def test_ranks_share_a_batch_and_resume_on_any_number_of_ranks():
    batches = GlobalBatches(10, 5, seed=2)
    batch = batches.next()
    assert sorted(mine(batch, 0, 2) + mine(batch, 1, 2)) == sorted(batch)
    wrap = GlobalBatches(10, 4, seed=2)
    drawn = [wrap.next() for _ in range(5)]
    assert sorted(item for batch in drawn for item in batch) == sorted([*range(10)] * 2)
    with pytest.raises(ValueError, match="count was 10"):
        GlobalBatches(11, 5, seed=2).load_state_dict(batches.state_dict())
    with pytest.raises(ValueError, match="batch_size must lie"):
        GlobalBatches(3, 4, seed=0)


def test_a_reserved_port_is_given_back_and_a_bound_one_is_passed_over():
    with reserved_port(3, 21_020, 21_021) as one:
        with reserved_port(3, 21_020, 21_021) as two:
            assert {one, two} == {21_020, 21_021}
            with (
                pytest.raises(RuntimeError, match="no port from 21020"),
                reserved_port(3, 21_020, 21_021),
            ):
                raise AssertionError("three callers on two ports")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", two))
            with pytest.raises(RuntimeError), reserved_port(3, 21_020, 21_021):
                raise AssertionError("both are taken")
        with reserved_port(3, 21_020, 21_021) as again:
            assert again == two


def test_buckets_are_filled_from_the_end():
    assert make_buckets([4, 4, 4, 4], 8) == [[3, 2], [1, 0]]
    assert make_buckets([3, 9, 2], 8) == [[2], [1], [0]]
    assert make_buckets([1, 1, 1], 100) == [[2, 1, 0]]


def test_memory_of_zero_is_the_papers():
    """Table 1 of arXiv:1910.02054: 7.5B weights on 64 devices."""
    rows = {stage: zero_bytes(7.5e9, 64, stage).total / 1e9 for stage in range(4)}
    assert rows == pytest.approx({0: 120, 1: 31.4, 2: 16.6, 3: 1.88}, abs=0.05)
    assert zero_bytes(8.0, 2, 3).weights == 8.0
    with pytest.raises(ValueError, match="stage"):
        zero_bytes(1.0, 1, 4)


def test_traffic():
    assert bytes_sent(100, 4) == 150
    assert traffic_bytes(50, 4, 1) == bytes_sent(100, 4)
    assert traffic_bytes(50, 4, 3) == 1.5 * traffic_bytes(50, 4, 2)
    assert sent_elements(8, 8, 4, whole=True) == 4 * sent_elements(8, 8, 4, whole=False)
