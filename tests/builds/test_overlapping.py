"""The judge of build 35: what it refuses, and that each known mistake ends elsewhere."""

import itertools
import random

import pytest
import torch

from bookkit.builds.network import network
from bookkit.builds.off_policy import MISTAKES, Way, updated
from bookkit.builds.overlapping import TOLERANCE, Desk, OverlapStage, score
from bookkit.builds.sampling_clock import Generator, prompts
from bookkit.builds.session import Stopped
from bookkit.builds.splitting import apart

pytestmark = pytest.mark.chapter(35)
SETTINGS = {"updates": 3, "batch": 2, "staleness": 1, "learning_rate": 1.0, "cap": 1.2}
STAGE = OverlapStage("small", SETTINGS, train_ticks=2)


def weights_of(model):
    return {name: x.clone() for name, x in model.state_dict().items()}


def desk_of(seed=0, **changes):
    asked = prompts(random.Random(seed), 6)
    return Desk(STAGE, asked, weights_of(network(seed)), **changes)


def publish(desk, weights, version, numbers):
    arrays = {name: x.numpy() for name, x in weights.items()}
    return desk.answer("publish", {"version": version, "numbers": numbers}, arrays)


def begun(*numbers, **changes):
    desk = desk_of(**changes)
    publish(desk, desk.weights, 0, [])
    for number in numbers:
        desk.answer("start", {"number": number}, {})
    return desk


def stepped(desk, numbers, way=None):
    groups = [desk.delivered[number] for number in numbers]
    after = updated(desk.weights, groups, SETTINGS, way or Way())
    return dict(zip(desk.weights, after, strict=True))


def delivered(*numbers):
    desk = begun(*numbers)
    for _ in numbers:
        assert desk.answer("next", {}, {})[0]["kind"] == "group"
    return desk


def test_a_right_step_is_counted_and_its_weights_are_loaded():
    desk = delivered(0, 1)
    before, ticks = desk.weights, desk.generator.ticks
    publish(desk, stepped(desk, [0, 1]), 1, [0, 1])
    assert desk.trained == {0, 1} and desk.version == desk.generator.version == 1
    assert desk.generator.ticks == ticks + STAGE.train_ticks
    assert apart(list(before.values()), list(desk.weights.values())) > 1e-3


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_known_mistake_is_named_or_is_none_on_fresh_data(sentence):
    """Importance weights are 1 on fresh data, so a mistake in them shows later."""
    desk, way = delivered(0, 1), MISTAKES[sentence]
    weights = stepped(desk, [0, 1], way)
    if way.weight != "truncated":
        publish(desk, weights, 1, [0, 1])
        return
    with pytest.raises(Stopped, match="version 1: ") as found:
        publish(desk, weights, 1, [0, 1])
    assert sentence in str(found.value)


def test_on_stale_data_every_mistake_ends_elsewhere():
    generator, groups = Generator(network(3)), []
    generator.load(weights_of(network(3)), 0)
    for number, prompt in enumerate(prompts(random.Random(3), 4)):
        generator.start(number, prompt)
    while generator.running:
        groups += generator.tick()
    noise = torch.Generator().manual_seed(0)
    now = {
        name: x + 0.2 * torch.randn(x.shape, generator=noise)
        for name, x in network(3).state_dict().items()
    }
    ends = [updated(now, groups, SETTINGS, way) for way in (Way(), *MISTAKES.values())]
    for one, other in itertools.combinations(ends, 2):
        assert apart(one, other) > 2 * TOLERANCE


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([0, 0], "trained twice"), ([0, 2], "never handed out"), ([0], "an update takes 2 groups")],
)
def test_groups_that_were_not_there_are_refused(numbers, words):
    desk = delivered(0, 1)
    with pytest.raises(Stopped, match=words):
        publish(desk, desk.weights, 1, numbers)


def test_a_group_that_is_drawn_once_more_is_not_trained():
    desk = delivered(0, 1)
    desk.answer("start", {"number": 1}, {})
    with pytest.raises(Stopped, match="drawn once more"):
        publish(desk, stepped(desk, [0, 1]), 1, [0, 1])


def test_versions_rise_by_one_and_bare_ones_change_nothing():
    desk = delivered(0, 1)
    with pytest.raises(Stopped, match="version 2 was published after version 0"):
        publish(desk, stepped(desk, [0, 1]), 2, [0, 1])
    with pytest.raises(Stopped, match="without a group"):
        publish(desk, stepped(desk, [0, 1]), 0, [])


def test_stale_tokens_are_counted_from_the_oldest():
    desk = delivered(0, 1, 2, 3, 4, 5)
    publish(desk, stepped(desk, [0, 1]), 1, [0, 1])
    publish(desk, stepped(desk, [2, 3]), 2, [2, 3])
    assert desk.stalest == 1
    with pytest.raises(Stopped, match="the staleness is 2, allowed are 1"):
        publish(desk, stepped(desk, [4, 5]), 3, [4, 5])


def test_weights_change_in_flight():
    desk = begun(0, 1, 2)
    desk.generator.tick()
    desk.generator.load(desk.weights, 1)
    groups = []
    while desk.generator.running:
        groups += desk.generator.tick()
    for group in groups:
        assert group.versions[:, 0].eq(0).all() and group.versions[:, 1:].eq(1).all()
        assert group.oldest == 0


def test_a_kill_loses_what_runs_and_the_weights():
    desk = begun(0, 1, kill_at=0)
    assert desk.answer("next", {}, {})[0] == {"kind": "killed", "lost": [0, 1]}
    with pytest.raises(Stopped, match="without weights"):
        desk.answer("start", {"number": 0}, {})
    with pytest.raises(Stopped, match="wait for ever"):
        desk.answer("next", {}, {})
    publish(desk, desk.weights, 0, [])
    desk.answer("start", {"number": 0}, {})
    assert desk.answer("next", {}, {})[0] == {"kind": "group", "number": 0}


@pytest.mark.parametrize("number", [-1, 6, True, "0", None])
def test_groups_that_there_are_not_are_refused(number):
    with pytest.raises(Stopped, match="has groups 0 to 5"):
        begun().answer("start", {"number": number}, {})
    with pytest.raises(Stopped, match="does not answer"):
        begun().answer("train", {}, {})


def test_what_is_left_in_the_end_is_named():
    desk = delivered(0, 1)
    publish(desk, stepped(desk, [0, 1]), 1, [0, 1])
    assert "4 of 6 groups were never trained" in (desk.missing(list(desk.weights.values())) or "")
    desk.trained = set(range(6))
    assert desk.missing(list(desk.weights.values())) is None
    moved = [x + 1 for x in desk.weights.values()]
    assert "not the one that was published last" in (desk.missing(moved) or "")


def test_scores_lie_at_chance_for_equal_logits():
    zero = [torch.zeros_like(p) for p in network().parameters()]
    assert score(zero, prompts(random.Random(0), 5)) == pytest.approx(0.2)


def test_a_synchronous_run_waits_for_the_longest_of_each_batch():
    asked = prompts(random.Random(1), 6)
    ticks = [prompt.ticks for prompt in asked]
    wanted = sum(max(ticks[k : k + 2]) + 2 for k in (0, 2, 4))
    assert STAGE.synchronous(asked) == wanted
