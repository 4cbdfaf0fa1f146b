"""A trainer that is killed goes on from its checkpoint; its generator does not outlive it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nbkit.trainers.checkpoint import resume, save
from tests.asynchronous import runs
from tests.asynchronous.runs import asynchronous, each_once, settings, steps, synchronous, weights

pytestmark = [pytest.mark.slow, pytest.mark.chapter(35), pytest.mark.xdist_group("alone")]
ROOT = Path(__file__).parents[2]


def train_and_die(folder: str, staleness: int) -> None:
    """Save after each of two updates, note who was trained on; die in the third."""
    torch.set_num_threads(1)
    here = Path(folder)
    with asynchronous(settings(), staleness=staleness) as run:
        numbers = []
        for _ in range(2):
            numbers += steps(run, 1)
            save(here / "run.pt", run)
        (here / "numbers.json").write_text(json.dumps(numbers))
        (here / "generator.pid").write_text(str(run.process.pid))
        run.step()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("staleness", [0, 2])
def test_a_killed_trainer_goes_on_and_each_group_counts_once(staleness, tmp_path):
    code = f"""
from tests.asynchronous.test_resume import train_and_die
train_and_die({str(tmp_path)!r}, {staleness})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    generator = int((tmp_path / "generator.pid").read_text())
    runs.until(lambda: not runs.alive(generator))
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    own = settings()
    with asynchronous(own, staleness=staleness, seed=99) as run:
        resume(tmp_path / "run.pt", run)
        assert run.done == 2 and run.ledger.trained == 2 * own.prompts
        numbers += steps(run)
    assert each_once(numbers, own)
    assert max(row["staleness/max"] for row in run.history) <= staleness
    if staleness == 0:
        assert torch.equal(weights(synchronous(own)), weights(run))


def test_a_checkpoint_of_another_staleness_is_refused(tmp_path):
    with asynchronous(settings(), staleness=0) as run:
        save(tmp_path / "run.pt", run)
    with (
        asynchronous(settings(), staleness=1) as other,
        pytest.raises(ValueError, match="another configuration: staleness"),
    ):
        resume(tmp_path / "run.pt", other)
