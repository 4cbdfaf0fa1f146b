"""PPO over a back-end: policy, value model and run are saved together or not at all."""

import os

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from nbkit.parallel.export import newest
from nbkit.trainers.checkpoint import resume, save
from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]

UPDATES = 4
CHANGES = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")


class Killed(BaseException):
    """Nothing may clean up after it, as after a signal."""


def trainer(seed=0):
    torch.manual_seed(seed)
    return jobs.rlhf_trainer("single")


def step(one, updates):
    while len(one.history) < updates:
        one.step()


def everything(one):
    """History and the weights of both models, to the bit."""
    both = [jobs.digest(jobs.everything(part)) for part in one.learners.values()]
    return jobs.timeless(one), both


def save_until(monkeypatch, path, one, number):
    """Save, and die instead of the call of that number; how many there were."""
    calls = []

    def deadly(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            calls.append(name)
            if number is not None and len(calls) > number:
                raise Killed
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patched:
        for name in CHANGES:
            patched.setattr(os, name, deadly(name))
        if number is None:
            save(path, one)
        else:
            with pytest.raises((Killed, CheckpointException)) as caught:
                save(path, one)
            assert "Killed" in repr(caught.value) or "Killed" in str(caught.value)
    return len(calls)


@pytest.fixture(scope="module")
def unbroken():
    one = trainer()
    step(one, UPDATES)
    return everything(one)


@pytest.fixture
def saved_twice(tmp_path):
    """A run with checkpoints of updates 1 and 2."""
    one = trainer()
    for updates in (1, 2):
        step(one, updates)
        save(tmp_path, one)
    return tmp_path


def resumed(path):
    one = trainer(seed=99)
    one.generator.manual_seed(4)
    resume(path, one)
    return one


def test_two_kills_at_any_points_of_a_save_leave_what_equals_an_unbroken_run(
    saved_twice, monkeypatch, unbroken, tmp_path_factory
):
    one = resumed(saved_twice)
    step(one, 3)
    count = save_until(monkeypatch, tmp_path_factory.mktemp("counted"), one, None)
    assert count > 20
    seen = set()
    for number in range(0, count, 3):
        for second in (number, count - 1 - number):  # two kills, one after the other
            one = resumed(saved_twice)
            seen.add(len(one.history))
            step(one, 3)
            save_until(monkeypatch, saved_twice, one, second)
        one = resumed(saved_twice)
        assert len(one.history) in (2, 3)
        step(one, UPDATES)
        assert everything(one) == unbroken
    assert 2 in seen  # some kills came before the rename
    save(saved_twice, one)
    assert everything(resumed(saved_twice)) == unbroken


def test_both_models_lie_in_one_folder(saved_twice):
    folder = newest(saved_twice)
    assert {"shards", "shards_value", "state.pt"} <= {path.name for path in folder.iterdir()}
    (folder / "shards_value" / ".metadata").unlink()
    with pytest.warns(UserWarning, match=r"00000002 is broken .*shards_value/.metadata"):
        assert len(resumed(saved_twice).history) == 1


def test_the_two_folders_of_earlier_runs_are_refused(tmp_path):
    (tmp_path / "policy" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ValueError, match="in two folders, as they were saved before"):
        resume(tmp_path, trainer())
