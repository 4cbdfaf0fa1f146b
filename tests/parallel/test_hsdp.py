"""HSDP: sharded within a group of ranks, copied between groups, equal to one device."""

import numpy as np
import pytest

from nbkit.parallel import ParallelConfig
from tests.parallel import jobs, shapes_alone

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]


def test_two_groups_of_two_equal_one_device(tmp_path):
    (alone,) = jobs.ranks(1, shapes_alone.trained, "single", str(tmp_path / "one"), {})
    found = jobs.ranks(4, shapes_alone.trained, "hsdp", str(tmp_path / "four"), {"shard_size": 2})
    for losses, weights, meshes in found:
        assert meshes == [(2, 2)]
        np.testing.assert_allclose(np.array(losses), np.array(alone[0]), rtol=2e-5)
        for name, value in alone[1].items():
            np.testing.assert_allclose(weights[name], value, atol=2e-5)
        assert losses[2] == losses[3]  # it went on from its checkpoint


def test_a_checkpoint_of_one_device_goes_on_under_hsdp(tmp_path):
    jobs.ranks(1, shapes_alone.trained, "single", str(tmp_path), {})
    (one,) = jobs.ranks(1, goes_on, "single", str(tmp_path), {})
    for loss in jobs.ranks(2, goes_on, "hsdp", str(tmp_path), {"shard_size": 1}):
        np.testing.assert_allclose(loss, one, rtol=2e-5)


def goes_on(word, folder, settings):
    from pathlib import Path

    parallel = shapes_alone.one_step(word, **settings)
    parallel.load(Path(folder))
    return shapes_alone.sft_step(parallel, 2)


def test_groups_must_be_whole(tmp_path):
    with pytest.raises(Exception, match="shard_size is 3; the 2 processes must make up whole"):
        jobs.ranks(2, shapes_alone.trained, "hsdp", str(tmp_path), {"shard_size": 3})
    with pytest.raises(ValueError, match="shard_size"):
        ParallelConfig(backend="hsdp", shard_size=-1)
