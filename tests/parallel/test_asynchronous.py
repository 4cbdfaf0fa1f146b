"""Checkpoints that a thread writes: steps go on meanwhile, and what counts is whole."""

import numpy as np
import pytest

from nbkit.parallel.launch import RanksFailedError
from tests.parallel import jobs, late_shards

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize("word", ["fsdp2", "zero3"])
def test_a_run_with_late_checkpoints_is_that_without(tmp_path, word):
    """Each is unnamed while the next step is taken, and holds the weights of its own step."""
    late = jobs.ranks(2, late_shards.fit, word, str(tmp_path / "late"), True)
    plain = jobs.ranks(2, late_shards.fit, word, str(tmp_path / "plain"), False)
    for (seen, losses, weights), (_, wanted, same_weights) in zip(late, plain, strict=True):
        assert seen[1] == ["step_00000001.new"]
        assert seen[2] == ["step_00000001", "step_00000002.new"]
        assert losses == wanted and same(weights, same_weights)
    assert late_shards.folders(tmp_path / "late") == ["step_00000003", "step_00000004"]
    for step in (3, 4):
        found = [
            jobs.ranks(2, late_shards.read_step, word, str(tmp_path / name), step)[0]
            for name in ("late", "plain")
        ]
        assert same(*found)


def test_a_kill_while_it_is_written_leaves_the_one_before(tmp_path):
    with pytest.raises(RanksFailedError, match="exit code 7"):
        jobs.ranks(2, late_shards.fit, "fsdp2", str(tmp_path / "run"), True, 3)
    assert late_shards.folders(tmp_path / "run") == ["step_00000001", "step_00000002.new"]
    found = jobs.ranks(2, late_shards.fit, "fsdp2", str(tmp_path / "run"), True)
    plain = jobs.ranks(2, late_shards.fit, "fsdp2", str(tmp_path / "plain"), False)
    assert found[0][1] == plain[0][1] and same(found[0][2], plain[0][2])


def test_told_to_stop_it_waits_for_the_disk(tmp_path):
    for seen, *_ in jobs.ranks(2, late_shards.fit, "fsdp2", str(tmp_path), True, 0, 2):
        assert seen[-1] == ["step_00000001", "step_00000002"]
    for _, losses, _ in jobs.ranks(2, late_shards.fit, "fsdp2", str(tmp_path), True):
        assert len(losses) == 4


def test_one_process_writes_late_too(tmp_path):
    ((seen, losses, _),) = jobs.ranks(1, late_shards.fit, "single", str(tmp_path), True)
    assert seen[1] == ["step_00000001.new"] and len(losses) == 4
    assert late_shards.folders(tmp_path) == ["step_00000003", "step_00000004"]


def test_a_full_disk_fails_the_run_and_names_no_checkpoint(tmp_path):
    for says, there, state in jobs.ranks(2, late_shards.failing, "fsdp2", str(tmp_path / "run")):
        assert "No space left on device" in says
        assert there == ["step_00000002.new"] and state == "failed\n"
