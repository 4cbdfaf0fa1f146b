"""What the chapters build by hand, in two and three processes, and the numbered faults."""

import itertools
import re
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from nbkit.parallel.launch import RanksFailedError
from nbkit.parallel.ports import reserved_port
from tests.parallel import hand_jobs as hand
from tests.parallel import jobs

pytestmark = pytest.mark.chapter(32, 33, 34)
slow = pytest.mark.slow


@slow
@pytest.mark.parametrize("size", [2, 3])
def test_ring(size):
    assert jobs.ranks(size, hand.ring) == [[True] * 4] * size


@slow
def test_parts_by_hand_equal_one_process():
    for found in jobs.ranks(2, hand.by_hand):
        assert found.pop("hand-over") == [True, True]
        assert found.pop("shard size") == 8  # of 15, padded to 16
        assert found.pop("messages") > 2
        assert "gradients are missing" in found.pop("missing")
        assert max(found.values()) < 1e-6, found


@slow
def test_unequal_token_counts_d05():
    for found in jobs.ranks(2, hand.unequal_counts):
        assert found == {"right": pytest.approx(2.0), "naive": pytest.approx(2.5)}


@slow
def test_seeds_differ_for_sampling_and_agree_for_data_d19():
    one, two = jobs.ranks(2, hand.seeds)
    assert one["order"] == two["order"]
    assert one["stream"] != two["stream"]
    assert one["seed"] != two["seed"]
    assert one["answer"] != two["answer"]
    # The trap: equal seeds make equal completions, so that a group has a spread of exactly 0.
    assert one["trap"] == two["trap"]
    assert one["same"] == two["same"]
    assert np.std([len(one["same"]), len(two["same"])]) == 0


def waits_in_vain(job, rank, where):
    """The message of a rank that ran out of patience inside `where`, while the other one slept."""
    with pytest.raises(RanksFailedError, match="a rank failed") as caught:
        jobs.ranks(2, job, False, timeout_s=hand.SLEEP_S - 100)
    said = str(caught.value)
    assert re.search(rf"rank {rank} raised:(.|\n)*in {where}\n(.|\n)*Timed out waiting", said), said
    assert f"rank {1 - rank} was stopped without a result" in said
    assert said.count("raised:") == 1


@slow
def test_gathering_the_state_is_for_every_rank_d20():
    sizes = jobs.ranks(2, hand.gathers, True)
    assert sizes[0] == sizes[1] == sum(p.numel() for p in hand.model().parameters())
    waits_in_vain(hand.gathers, 0, "whole_state")


@slow
def test_decoding_goes_on_until_the_last_rank_is_through_d20():
    made = jobs.ranks(2, hand.decodes, True)
    assert [forwards for forwards, _ in made] == [5, 5]
    assert [length for _, length in made] == [2, 5]
    waits_in_vain(hand.decodes, 1, "decode_in_lockstep")


@slow
def test_frozen_models_are_not_wrapped():
    for found in jobs.ranks(2, hand.frozen):
        assert "doesn't require a gradient" in found["ddp"] or "not needed" in found["ddp"]
        assert "goes to `frozen`" in found["prepare"]
        assert not found["learns"]
        assert found["scores"] == (1, 2, len(hand.VOCABULARY))


@slow
def test_a_failing_or_hanging_rank_ends_the_others():
    with pytest.raises(RanksFailedError, match=r"rank 1 raised(.|\n)*bad luck"):
        jobs.ranks(2, hand.fails, 1)
    start = time.monotonic()
    with pytest.raises(RanksFailedError, match="after 4 s time was up:\nrank 0 was stopped"):
        jobs.ranks(2, hand.hangs, timeout_s=4)
    assert time.monotonic() - start < 100  # the rank itself would sleep for ten minutes


@slow
def test_calls_at_once_from_several_processes_never_share_a_port():
    """Each takes and gives back many ports from the same start; no two hold one at a time."""
    with ProcessPoolExecutor(4) as pool:
        held = [span for spans in pool.map(hold_ports, range(4)) for span in spans]
    by_port = {}
    for port, start, end in held:
        by_port.setdefault(port, []).append((start, end))
    assert max(len(spans) for spans in by_port.values()) > 1  # there was something to share
    for spans in by_port.values():
        spans.sort()
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))


def hold_ports(_):
    found = []
    for _ in range(200):
        with reserved_port(500, 21_000, 21_009) as port:
            start = time.monotonic()
            time.sleep(0.001)
            found.append((port, start, time.monotonic()))
    return found
