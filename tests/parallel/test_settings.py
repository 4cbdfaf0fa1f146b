"""Settings that do not fit, ports, and where compiled helpers lie."""

import sys
from pathlib import Path

import pytest
import torch

from nbkit.parallel import ParallelConfig, connect, deepspeed_setup
from nbkit.parallel.deepspeed_setup import drop_dead_locks
from nbkit.parallel.ports import candidate, ephemeral_range, free_port
from nbkit.parallel.world import World

pytestmark = pytest.mark.chapter(33)


def test_processes_that_have_not_joined_are_refused():
    with pytest.raises(ValueError, match="2 processes, but this one has not joined"):
        connect("ddp", World(0, 2))


def test_helpers_of_another_torch_or_python_lie_elsewhere():
    versions = [("2.13.0+cpu", (3, 11)), ("2.11.0+cpu", (3, 11)), ("2.13.0+cpu", (3, 12))]
    folders = [deepspeed_setup.cache_of(*version) for version in versions]
    assert [folder.name for folder in folders] == [
        "torch2.13.0_cpu_py311",
        "torch2.11.0_cpu_py311",
        "torch2.13.0_cpu_py312",
    ]
    assert (
        deepspeed_setup.cache_of(torch.__version__, sys.version_info[:2]) == deepspeed_setup.CACHE
    )


def test_ports_do_not_clash():
    assert candidate(7) != candidate(8)
    low, high = ephemeral_range()
    port = free_port(123)
    assert not low <= port <= high
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert free_port(123) != port


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backend": "zero4"}, "backend must be one of"),
        ({"precision": "fp8"}, "precision"),
        ({"backend": "zero3-nvme"}, "nvme_path"),
        ({"bucket_mb": 0}, "bucket_mb"),
        ({"bucket_mb": 2.5}, "bucket_mb must be a whole number; got 2.5"),
        ({"compile": "no"}, "compile must be True or False; got 'no'"),
        ({"reshard_after_forward": "no"}, "reshard_after_forward must be True or False"),
        ({"backend": "zero3-nvme", "nvme_path": ""}, "nvme_path is empty"),
        ({"seed": "7"}, "seed must be a whole number"),
        ({"backend": "zero3", "compile": True}, "compile does not go with backend 'zero3'"),
        ({"backend": "zero3-offload", "compile": True}, "choose 'fsdp2' or 'zero2'"),
    ],
)
def test_settings_that_do_not_fit(settings, words):
    with pytest.raises(ValueError, match=words):
        ParallelConfig(**settings)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_locks_of_killed_compilations_are_dropped_and_held_ones_are_not(tmp_path):
    for name in ("held", "dead"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    with (tmp_path / "held" / "lock").open():
        assert drop_dead_locks(tmp_path) == [tmp_path / "dead" / "lock"]
        assert (tmp_path / "held" / "lock").exists()
    assert not (tmp_path / "dead" / "lock").exists()
