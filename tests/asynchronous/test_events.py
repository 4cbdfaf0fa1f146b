"""The event simulation: it beats no bound, meets each where it must, and loses nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbkit.asynchronous.bounds import (
    largest_gain,
    least_seconds,
    sampling_seconds,
    work_seconds,
)
from nbkit.asynchronous.events import simulate
from nbkit.asynchronous.lengths import draw_lengths, tail_ratio
from nbkit.asynchronous.machines import COLOCATED, ONE_STEP_AHEAD, SYNCHRONOUS, Machines, Scheme

pytestmark = pytest.mark.chapter(35)

SCHEMES = st.one_of(
    st.sampled_from([SYNCHRONOUS, COLOCATED, ONE_STEP_AHEAD]),
    st.builds(
        Scheme,
        staleness=st.integers(0, 5),
        in_flight=st.booleans(),
        order=st.sampled_from(["started", "finished"]),
    ),
)
MACHINES = st.builds(
    Machines,
    samplers=st.integers(1, 4),
    trainers=st.integers(1, 4),
    slots=st.integers(1, 6),
    token_seconds=st.sampled_from([0.02, 0.5, 1.0]),
    train_token_seconds=st.sampled_from([0.001, 0.1, 1.0]),
    load_seconds=st.sampled_from([0.0, 0.3, 7.0]),
    switch_seconds=st.sampled_from([0.0, 2.5]),
)


@st.composite
def runs(draw):
    """Lengths, prompts a batch, devices and a scheme."""
    prompts, group_size = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    groups = prompts * draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    tail = draw(st.sampled_from([0.0, 0.5, 1.5]))
    lengths = draw_lengths(rng, groups, group_size, mean=12, tail=tail, longest=60)
    return lengths, prompts, draw(MACHINES), draw(SCHEMES)


@given(runs())
@settings(max_examples=200, deadline=None)
def test_no_run_beats_its_bound_and_none_loses_a_group(run) -> None:
    lengths, prompts, machines, scheme = run
    outcome = simulate(lengths, prompts, machines, scheme)
    assert outcome.seconds >= least_seconds(lengths, prompts, machines, scheme) * (1 - 1e-9)
    assert outcome.seconds >= work_seconds(lengths.sum(), machines, scheme) * (1 - 1e-9)
    assert sorted(outcome.trained) == list(range(len(lengths)))  # each once
    assert not outcome.waiting and not outcome.running
    assert outcome.completions == lengths.size
    assert outcome.staleness.total() == lengths.sum()
    for idle in (outcome.sampler_idle, outcome.trainer_idle, outcome.device_idle):
        assert -1e-9 <= idle < 1
    if scheme.order == "started":
        assert outcome.trained == tuple(range(len(lengths)))
        assert outcome.oldest <= scheme.staleness
    assert min(outcome.staleness) >= 0
    if not scheme.in_flight:
        assert outcome.versions_in_completion == 1


@given(runs(), st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_in_the_middle_of_a_run_every_group_is_somewhere(run, updates: int) -> None:
    lengths, prompts, machines, scheme = run
    updates = min(updates, len(lengths) // prompts)
    outcome = simulate(lengths, prompts, machines, scheme, updates=updates)
    started = [*outcome.trained, *outcome.waiting, *outcome.running]
    assert sorted(started) == list(range(len(started)))  # the first ones, each in one place
    assert len(outcome.trained) == updates * prompts
    assert len(started) <= (scheme.staleness + updates) * prompts  # the rule, before the last end
    tokens = lengths[list(outcome.trained)].sum()
    assert outcome.seconds >= work_seconds(tokens, machines, scheme) * (1 - 1e-9)
    assert outcome.staleness.total() == tokens


@given(runs())
@settings(max_examples=100, deadline=None)
def test_a_slot_decodes_one_token_at_a_time_and_spans_hold_all_tokens(run) -> None:
    lengths, prompts, machines, scheme = run
    outcome = simulate(lengths, prompts, machines, scheme)
    seen = dict.fromkeys(range(len(lengths)), 0)
    lanes: dict[tuple[int, int], list] = {}
    for span in outcome.spans:
        seen[span.group] += span.tokens
        lanes.setdefault((span.device, span.slot), []).append(span)
        assert span.end - span.start == pytest.approx(span.tokens * machines.token_seconds)
    assert list(seen.values()) == lengths.sum(1).tolist()
    for lane in lanes.values():
        lane.sort(key=lambda span: span.start)
        for one, other in itertools.pairwise(lane):
            assert other.start >= one.end - 1e-6
    ends = [update.end for update in outcome.updates]
    starts = [update.start for update in outcome.updates]
    assert all(start >= end - 1e-9 for start, end in zip(starts[1:], ends, strict=False))
    trained_at = {group: update.start for update in outcome.updates for group in update.groups}
    assert all(span.end <= trained_at[span.group] + 1e-6 for span in outcome.spans)
    for span in outcome.spans:  # nobody decodes with weights before they are there
        assert not span.version or span.start >= ends[span.version - 1] - 1e-6


def test_by_hand_two_slots_three_batches() -> None:
    """Batches of two completions, 4 and 1 tokens a second each; training takes 1 s a batch.

    Synchronous: 4 s and 1 s, three times. One step ahead: the training hides behind the sampling
    of the next batch, 4 + 4 + 4 + 1.
    """
    lengths = np.array([[4, 1]] * 3)
    machines = Machines(1, 1, slots=2, token_seconds=1.0, train_token_seconds=0.2)
    found = simulate(lengths, 1, machines, SYNCHRONOUS)
    assert found.seconds == pytest.approx(15)
    assert found.sampler_idle == pytest.approx(1 - 15 / 30)
    assert found.trainer_idle == pytest.approx(1 - 3 / 15)
    assert found.device_idle == pytest.approx(1 - (7.5 + 3) / 30)
    assert found.samples_per_second == pytest.approx(6 / 15)
    assert dict(found.staleness) == {0: 15}
    ahead = simulate(lengths, 1, machines, ONE_STEP_AHEAD)
    assert ahead.seconds == pytest.approx(13)
    assert [update.start for update in ahead.updates] == pytest.approx([4, 8, 12])
    assert [dict(update.staleness) for update in ahead.updates] == [{0: 5}, {1: 5}, {1: 5}]
    shared = Machines(1, 1, slots=2, token_seconds=1.0, train_token_seconds=0.2, switch_seconds=0.5)
    colocated = simulate(lengths, 1, shared, COLOCATED)  # 4 + 0.5 + 0.5, with 0.5 between
    assert colocated.seconds == pytest.approx(3 * 5 + 2 * 0.5)
    assert colocated.sampler_idle == pytest.approx(1 - 15 / (4 * 16))
    assert colocated.device_idle == pytest.approx(1 - (7.5 + 3) / 32)


def test_by_hand_new_weights_in_the_middle_of_a_completion() -> None:
    """One slot each for a group of 2 and a group of 6 tokens; training of the first ends at 4 s.

    In flight, the second group has 4 tokens of version 0 and 2 of version 1. A pause of 3 s moves
    its end. Without it, the group keeps version 0 to its end.
    """
    lengths = np.array([[2], [6], [2]])
    free = Machines(2, 1, slots=1, token_seconds=1.0, train_token_seconds=1.0)
    paused = Machines(2, 1, slots=1, token_seconds=1.0, train_token_seconds=1.0, load_seconds=3)
    flight = Scheme(staleness=1, in_flight=True)
    found = simulate(lengths, 1, free, flight)
    assert dict(found.updates[1].staleness) == {1: 4, 0: 2}
    assert found.versions_in_completion == 2
    assert found.updates[1].start == pytest.approx(6)
    assert simulate(lengths, 1, paused, flight).updates[1].start == pytest.approx(9)
    whole = simulate(lengths, 1, free, Scheme(staleness=1))
    assert dict(whole.updates[1].staleness) == {1: 6}
    assert whole.versions_in_completion == 1


def test_the_order_of_finishing_lets_a_long_completion_grow_old() -> None:
    """With η = 1 a group of 60 tokens is overtaken by all the others, and trained last."""
    lengths = np.array([[1], [60], *[[1]] * 8])
    machines = Machines(1, 1, slots=2, token_seconds=1.0, train_token_seconds=0.1)
    kept = simulate(lengths, 1, machines, Scheme(staleness=1, in_flight=True))
    assert kept.trained == tuple(range(10)) and kept.oldest == 1
    finished = Scheme(staleness=1, in_flight=True, order="finished")
    free = simulate(lengths, 1, machines, finished)
    assert free.trained[-1] == 1 and free.oldest == 9
    assert free.seconds < kept.seconds


@pytest.mark.parametrize("scheme", [SYNCHRONOUS, COLOCATED, ONE_STEP_AHEAD])
@pytest.mark.parametrize("tail", [0.0, 1.0])
def test_with_a_slot_for_each_completion_the_bound_is_met(scheme: Scheme, tail: float) -> None:
    lengths = draw_lengths(np.random.default_rng(3), 40, 4, mean=50, tail=tail, longest=400)
    machines = Machines(2, 2, slots=8, train_token_seconds=0.002, switch_seconds=1.0)
    found = simulate(lengths, 4, machines, scheme).seconds
    assert found == pytest.approx(least_seconds(lengths, 4, machines, scheme), rel=1e-9)


@pytest.mark.parametrize("train_token_seconds", [0.0005, 0.005])
@pytest.mark.parametrize("in_flight", [False, True])
def test_with_equal_lengths_overlap_meets_its_bound(train_token_seconds, in_flight) -> None:
    lengths = np.full((80, 4), 50)
    machines = Machines(2, 2, slots=8, train_token_seconds=train_token_seconds)
    scheme = Scheme(staleness=1, in_flight=in_flight)
    found = simulate(lengths, 4, machines, scheme).seconds
    assert found == pytest.approx(least_seconds(lengths, 4, machines, scheme), rel=1e-9)


def test_staleness_of_zero_is_the_synchronous_run() -> None:
    lengths = draw_lengths(np.random.default_rng(5), 40, 4, mean=50, tail=1.0, longest=400)
    machines = Machines(load_seconds=0.5)
    runs = [
        simulate(lengths, 4, machines, Scheme(0, in_flight=flag, order=order))
        for flag in (False, True)
        for order in ("started", "finished")
    ]
    assert runs[0].spans and all(run.spans == runs[0].spans for run in runs)
    assert {run.seconds for run in runs} == {runs[0].seconds}
    assert all(set(run.staleness) == {0} for run in runs)


def test_bounds_by_hand() -> None:
    assert sampling_seconds(np.array([4, 1]), 2, 1.0) == 4
    assert sampling_seconds(np.array([4, 1, 4, 3]), 2, 0.5) == 3
    assert largest_gain(3.0, 3.0) == 2 and largest_gain(9.0, 1.0) == pytest.approx(10 / 9)
    machines = Machines(1, 3, slots=2, token_seconds=1.0, train_token_seconds=0.6)
    assert work_seconds(10, machines, SYNCHRONOUS) == pytest.approx(5)
    assert work_seconds(10, machines, COLOCATED) == pytest.approx(10 / 8 + 6 / 4)
    # With equal sides overlap gains nothing over the same devices in turn.
    even = Machines(1, 1, slots=2, token_seconds=1.0, train_token_seconds=0.5)
    assert work_seconds(10, even, SYNCHRONOUS) == work_seconds(10, even, COLOCATED)


def test_lengths_keep_their_mean_whatever_the_tail() -> None:
    rng = np.random.default_rng(0)
    for tail in (0.0, 0.5, 1.0):
        lengths = draw_lengths(rng, 4000, 8, mean=200, tail=tail, longest=10**6)
        assert lengths.mean() == pytest.approx(200, rel=0.05)
        assert np.log(lengths).std() == pytest.approx(tail, abs=0.02)
    cut = draw_lengths(rng, 100, 8, mean=200, tail=1.0, longest=300)
    assert cut.max() == 300 and cut.min() >= 1
    again = [draw_lengths(np.random.default_rng(7), 3, 2, mean=9, tail=1, longest=99) for _ in "ab"]
    assert (again[0] == again[1]).all()
    assert tail_ratio(1, 0.5) == pytest.approx(math.exp(-0.125)) and tail_ratio(128, 0.0) == 1


@pytest.mark.parametrize("tail", [0.5, 1.0])
def test_the_longest_of_many_is_near_its_estimate(tail: float) -> None:
    rng = np.random.default_rng(1)
    many = draw_lengths(rng, 2000, 128, mean=500, tail=tail, longest=10**9).max(1)
    assert np.median(many) / 500 == pytest.approx(tail_ratio(128, tail), rel=0.5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Machines(slots=0), "slots must lie"),
        (lambda: Machines(token_seconds=0.0), "token_seconds must lie"),
        (lambda: Machines(load_seconds=math.nan), "load_seconds must lie"),
        (lambda: Scheme(staleness=-1), "staleness must lie"),
        (lambda: Scheme(staleness=1, shared=True), "shared devices sample or train"),
        (lambda: Scheme(staleness=2, barrier=True), "at most one batch is ahead"),
        (lambda: Scheme(order="longest"), "order must be one of"),
        (lambda: simulate(np.ones((3, 2), int), 2, Machines(), SYNCHRONOUS), "multiple of prompts"),
        (lambda: simulate(np.zeros((4, 2), int), 2, Machines(), SYNCHRONOUS), "at least 1 token"),
        (
            lambda: simulate(np.ones((4, 2), int), 2, Machines(), SYNCHRONOUS, updates=3),
            "updates must lie in",
        ),
        (
            lambda: draw_lengths(np.random.default_rng(0), 1, 1, mean=9, tail=1, longest=5),
            "mean must lie",
        ),
        (lambda: largest_gain(0.0, 1.0), "sampling must lie"),
    ],
)
def test_what_cannot_be_is_refused(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
