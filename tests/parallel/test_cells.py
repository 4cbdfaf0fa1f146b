"""Functions that cannot be imported run in the ranks, and their printing comes back in order."""

import warnings

import pytest
import torch
import torch.distributed as dist

from nbkit.parallel import join
from nbkit.parallel.cells import in_ranks, warm
from nbkit.parallel.launch import RanksFailedError
from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(32)]


def test_a_function_of_a_cell_takes_along_what_it_mentions(capsys):
    jobs.warm()
    warm()  # a second start is none
    factor = 3

    def scaled(x):
        return factor * x

    def job(x):
        world = join("cpu", timeout_s=300)
        y = scaled(x + world.rank)
        dist.all_reduce(y)
        print(f"threads: {torch.get_num_threads()}")
        print("that was all")
        return y, world.rank

    made = in_ranks(job, 2, torch.tensor([1.0, 2.0]), timeout_s=600)
    assert [rank for _, rank in made] == [0, 1]
    assert all(torch.equal(y, torch.tensor([9.0, 15.0])) for y, _ in made)
    said = [f"rank {rank}: {line}" for rank in (0, 1) for line in ("threads: 1", "that was all")]
    assert capsys.readouterr().out.splitlines() == said


def test_a_cell_that_fails_says_where():
    jobs.warm()

    def job():
        world = join("cpu", timeout_s=300)
        if world.rank == 1:
            print("so far so good")
            warnings.warn("a bad sign", UserWarning, stacklevel=1)
            raise ValueError("out of luck")

    with pytest.raises(RanksFailedError, match=r"rank 1 raised(.|\n)*out of luck") as caught:
        in_ranks(job, 2, timeout_s=600)
    assert "so far so good" in str(caught.value)
    assert "a bad sign" in str(caught.value)
