"""Settings, a limit on a call, messages: what is wrong is named."""

import threading
import time

import pytest

from nbkit.asynchronous.messages import packed, unpacked
from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.time_limit import OverTimeError, time_limit
from tests.rlvr.small import config

pytestmark = pytest.mark.chapter(35)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"staleness": -1}, "staleness"),
        ({"policy": "forget"}, "policy"),
        ({"cache": "forget"}, "cache"),
        ({"start": "fork"}, "start"),
        ({"wait_s": 0.0}, "wait_s"),
        ({"idle_s": -1.0}, "idle_s"),
        ({"reward_limit_s": 0.0}, "reward_limit_s"),
        ({"restarts": -1}, "restarts"),
    ],
)
def test_bad_settings_are_named(changes, named):
    with pytest.raises(ValueError, match=f"^{named} must"):
        AsyncOptions(**changes)


def test_the_queue_has_room_for_what_is_admitted_unless_it_is_told():
    settings = config(prompts=4)
    assert AsyncOptions(staleness=0).room(settings) == 4
    assert AsyncOptions(staleness=3).room(settings) == 16
    assert AsyncOptions(staleness=3, capacity=5).room(settings) == 5
    with pytest.raises(ValueError, match="the queue must hold at least a batch"):
        AsyncOptions(capacity=3).room(settings)


def test_a_call_that_waits_is_ended_and_one_that_does_not_is_left_alone():
    with pytest.raises(OverTimeError), time_limit(0.2):
        threading.Event().wait(60)
    with time_limit(60.0):
        value = 1 + 1
    assert value == 2
    time.sleep(0.01)


def test_a_call_that_catches_what_it_can_is_ended_all_the_same():
    tries = 0
    with pytest.raises(OverTimeError), time_limit(0.2):
        while True:
            try:
                tries += 1
                threading.Event().wait(60)
            except Exception:
                continue
    assert tries == 1


def test_the_limit_belongs_to_the_main_thread():
    caught = []

    def call():
        try:
            with time_limit(1.0):
                pass
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert caught and "main thread" in caught[0]


def test_what_cannot_travel_is_named():
    assert unpacked(packed({"a": 1})) == {"a": 1}
    with pytest.raises(ValueError, match="Define the reward function"):
        packed(lambda problems, completions: [])
