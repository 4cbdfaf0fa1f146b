"""The judge's side of the worlds: what it counts, what it refuses, what it compares with."""

import os
import random
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bookkit.builds.control import Held, checked_actions, disguise
from bookkit.builds.limits import IDLE_SECONDS, Meter
from bookkit.builds.network import network
from bookkit.builds.ranks import Exchange
from bookkit.builds.registry import get_build
from bookkit.builds.session import Stopped
from bookkit.builds.splitting import MISTAKES, TOLERANCE, apart, play, whole
from bookkit.builds.sums import ANSWER, Graded, Sums
from bookkit.builds.weights import loaded, moved
from bookkit.builds.writing import Scored
from nbkit.control.environments import make_control_env
from nbkit.envs.reviews import ALPHABET
from nbkit.rewards.text import contains_keyword
from nbkit.text.environment import TextEnv
from nbkit.text.policies import LSTMPolicy
from nbkit.text.vocabulary import CharVocabulary


def test_a_disguise_changes_names_and_nothing_else() -> None:
    plain, worn = (make_control_env("CartPole-v1", 3) for _ in range(2))
    hidden = disguise(worn, random.Random(4))
    assert hidden.order.tolist() != [0, 1, 2, 3] or (hidden.signs < 0).any()
    first = Held(plain, 5, 90, disguise(plain, None))
    second = Held(worn, 5, 90, hidden)
    seen = first.answer("reset", {}, {})[1]["observations"]
    other = second.answer("reset", {}, {})[1]["observations"]
    generator = np.random.default_rng(0)
    back = np.argsort(hidden.actions.numpy())
    for _ in range(30):
        assert np.allclose(other, seen[:, hidden.order] * hidden.signs.numpy())
        actions = generator.integers(0, 2, 3)
        _, one = first.answer("step", {}, {"actions": actions})
        _, two = second.answer("step", {}, {"actions": back[actions]})
        seen, other = one["next_observations"], two["next_observations"]
        assert (one["terminated"] == two["terminated"]).all()
    with pytest.raises(Stopped, match="more than its 90 environment steps"):
        first.answer("step", {}, {"actions": actions})


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (None, "2 whole numbers"),
        (np.zeros(3, dtype=np.int64), "2 whole numbers"),
        (np.zeros(2, dtype=np.float32), "2 whole numbers"),
        (np.array([0, 2]), "from 0 to 1; it got 0 to 2"),
        (np.array([-1, 0]), "from 0 to 1; it got -1 to 0"),
    ],
)
def test_actions_that_are_none_are_refused(actions, words: str) -> None:
    with pytest.raises(Stopped, match=words):
        checked_actions(actions, 2, 2)


def test_texts_are_scored_and_counted_up_to_their_end() -> None:
    vocabulary = CharVocabulary(ALPHABET)
    world = Scored(TextEnv(vocabulary, contains_keyword("good")), budget=20)
    good = [*vocabulary.encode("good"), vocabulary.eos_id, *vocabulary.encode("xx")]
    late = [*vocabulary.encode("so"), vocabulary.eos_id, *vocabulary.encode("good")]
    _, found = world.answer("score", {}, {"ids": np.array([good, late])})
    assert found["rewards"].tolist() == [1.0, -1.0]  # behind the end nothing counts
    assert world.used == 5 + 3
    with pytest.raises(Stopped, match="more than its 20 tokens"):
        world.answer("score", {}, {"ids": np.array([late[:2] * 7])})
    for ids in (None, np.zeros(3, dtype=np.int64), np.zeros((1, 41), dtype=np.int64)):
        with pytest.raises(Stopped, match="wants token ids"):
            world.answer("score", {}, {} if ids is None else {"ids": ids})
    with pytest.raises(Stopped, match="wants ids from 0"):
        world.answer("score", {}, {"ids": np.array([[len(vocabulary)]])})


def test_answers_are_marked_with_the_offset_of_their_problem() -> None:
    sums = Sums.drawn(random.Random(1))
    assert not set(sums.practice) & set(sums.kept) and len(sums.kept) == 120
    assert sums.vocabulary.characters != Sums.drawn(random.Random(2)).vocabulary.characters
    known = sums.vocabulary
    world = Graded(sums, random.Random(2), budget=1000, offset=5.0)
    _, drawn = world.answer("problems", {"count": 6}, {})
    numbers = drawn["numbers"].repeat(2)
    rows = []
    for place, number in enumerate(numbers):
        a, b = sums.practice[number]
        told = known.encode(str(a + b + place % 2))  # every second one is wrong
        rows.append(([*told, known.eos_id] + [0] * ANSWER)[:ANSWER])
    ids = np.array(rows)
    _, found = world.answer("score", {}, {"ids": ids, "numbers": numbers})
    pairs = found["rewards"].reshape(6, 2)
    assert np.allclose(pairs[:, 0] - pairs[:, 1], 1.0, atol=1e-5)
    assert pairs[:, 1].std() > 1.0  # offsets differ
    assert world.means[-1][1] == 0.5 and world.single == world.again == world.alike == 0
    world.answer("score", {}, {"ids": ids, "numbers": numbers})
    assert world.again == 1
    world.answer("score", {}, {"ids": ids[::2], "numbers": numbers[::2]})
    assert world.single == 1
    without_end = np.array([known.encode(str(sum(sums.practice[0])))])
    _, found = world.answer("score", {}, {"ids": without_end, "numbers": np.array([0])})
    assert found["rewards"][0] == pytest.approx(world._offsets[0])
    with pytest.raises(Stopped, match=r"numbers that `world\.problems` has given"):
        world.answer("score", {}, {"ids": without_end, "numbers": np.array([10**6])})


def test_weights_come_back_only_as_they_went() -> None:
    torch.manual_seed(0)
    base = LSTMPolicy(9, width=8)
    arrays = {name: x.numpy().copy() for name, x in base.state_dict().items()}
    again = loaded(base, arrays)
    prompts = torch.tensor([[1, 3], [1, 4]])
    generator = torch.Generator().manual_seed(0)
    assert moved(again, base, prompts, 4, 2, generator) == pytest.approx(0.0, abs=1e-6)
    arrays["head.bias"] += np.arange(9, dtype=np.float32)
    assert moved(loaded(base, arrays), base, prompts, 4, 2, generator) > 0.5
    arrays["head.bias"][0] = np.nan
    with pytest.raises(Stopped, match=r"head\.bias hold numbers that are not finite"):
        loaded(base, arrays)
    with pytest.raises(Stopped, match="other weights"):
        loaded(base, {**arrays, "head.bias": np.zeros(3, dtype=np.float32)})


def in_ranks(exchange: Exchange, asked) -> list:
    found: list = [None] * len(asked)

    def run(rank: int) -> None:
        try:
            for kind, array in asked[rank]:
                found[rank] = exchange.answer(rank, kind, {}, {"x": np.float32(array)})["x"]
        except Stopped as error:
            found[rank] = str(error)
        exchange.leave(rank, "has returned")

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()
    return found


def no_batch(rank: int, step: int):
    raise AssertionError("nobody asks for a batch here")


def test_ranks_meet_in_collectives() -> None:
    exchange = Exchange(2, no_batch)
    one, two = in_ranks(exchange, [[("all_reduce", [1, 2])], [("all_reduce", [10, 20])]])
    assert one.tolist() == two.tolist() == [11, 22]
    assert (exchange.calls, exchange.bytes_sent) == (1, 8)
    one, two = in_ranks(Exchange(2, no_batch), [[("broadcast", [3])], [("broadcast", [4])]])
    assert one.tolist() == two.tolist() == [3]


def test_ranks_that_miss_each_other_are_told_so() -> None:
    found = in_ranks(Exchange(2, no_batch), [[("all_reduce", [1, 2])], []])
    assert "rank 0 waits in `all_reduce` for ever, for rank 1 has returned" in found[0]
    found = in_ranks(Exchange(2, no_batch), [[("all_reduce", [1])], [("broadcast", [1])]])
    assert any("rank 1 is in `broadcast`" in str(text) for text in found)


@pytest.mark.parametrize("seed", range(5))
def test_each_known_mistake_ends_elsewhere(seed: int) -> None:
    (stage,) = get_build(32).stages
    draw = random.Random(seed)
    rows = [stage.rows(draw, step) for step in range(stage.settings["steps"])]
    assert rows[2][1].mask.sum() == 0 and rows[0][0].mask.sum() != rows[0][1].mask.sum()
    start = network(seed)
    right = play(start, rows, stage.settings, whole)
    ends = [right] + [play(start, rows, stage.settings, way) for way in MISTAKES.values()]
    for place, end in enumerate(ends):
        for other in ends[:place]:
            assert apart(end, other) > 10 * TOLERANCE


def test_the_right_gradient_is_that_of_the_mean_over_all_tokens() -> None:
    (stage,) = get_build(32).stages
    parts = stage.rows(random.Random(3), 0)
    model = network(3)
    x, y, mask = (torch.cat([getattr(part, name) for part in parts]) for name in ("x", "y", "mask"))
    losses = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none")
    loss = losses[mask.flatten() > 0].mean()
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    for a, b in zip(whole(model, parts, 1e9), wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_who_waits_for_the_judge_does_not_hang() -> None:
    now = [0.0]
    meter = Meter(os.getpid(), lambda: now[0])
    now[0] = 1000.0  # the judge has taught a pupil meanwhile
    meter.begin_to_wait()
    assert not meter.hangs()
    now[0] += IDLE_SECONDS + 20.0
    meter.excuse(30.0)
    assert not meter.hangs()
    now[0] += 30.0
    assert meter.hangs()
