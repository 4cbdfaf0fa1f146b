"""A back-end's settings from the configuration of a job."""

from dataclasses import dataclass

import pytest

from nbkit.parallel import ParallelConfig


@dataclass(frozen=True)
class Job:
    backend: str = "fsdp2"
    compile: bool = True
    steps: int = 4


def test_fields_of_the_same_name_are_taken_and_no_others():
    assert ParallelConfig.of(Job()) == ParallelConfig(backend="fsdp2", compile=True)
    changed = ParallelConfig.of(Job(), precision="bfloat16", compile=False)
    assert changed == ParallelConfig(backend="fsdp2", precision="bfloat16")


def test_what_does_not_fit_is_refused_as_ever():
    with pytest.raises(ValueError, match="backend"):
        ParallelConfig.of(Job(backend="fsdp3"))
