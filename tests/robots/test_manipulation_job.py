"""The job ppo_manipulation: two ranks with one policy, and a run that goes on after a stop."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nbkit.control.policies_pixels import PixelActorCritic
from nbkit.envs.rendering import NoRenderer, choose_backend
from nbkit.parallel.world import join, leave
from nbkit.trainers.ppo.budget import Budget
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.pixels import PixelTrainer
from tests.parallel import jobs

SCRIPT = Path(__file__).resolve().parents[2] / "cluster_scripts" / "ppo_manipulation" / "train.py"
pytestmark = [pytest.mark.slow, pytest.mark.chapter(41)]


def load_job() -> Any:
    spec = importlib.util.spec_from_file_location("ppo_manipulation_train", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def one_averaged_step() -> tuple[torch.Tensor, torch.Tensor]:
    """Each rank has a gradient of its own; all must take the step of their mean."""
    rank = join("cpu").rank
    weight = torch.nn.Parameter(torch.zeros(3))
    weight.grad = torch.tensor([[0.3, 0.0, 0.1], [0.1, 0.2, 0.0]][rank])
    load_job().AveragedAdam([weight], lr=0.1).step()
    leave()
    return weight.detach(), weight.grad


def three_updates() -> dict[str, Any]:
    """The trainer of the job on this rank's arms."""
    world = join("cpu")
    job = load_job()
    config = job.Config(backend="ddp", arms=4, steps=8, minibatch=16)
    trainer = job.make_trainer(config, world)
    first = trainer.observations.clone()
    for _ in range(3):
        trainer.step()
    trainer.source.close()
    leave()
    return {"first": first, "weights": trainer.policy.state_dict()}


def what_is_left() -> float:
    """The second rank's clock says that time is up."""
    rank = join("cpu").rank
    budget = Budget(updates=1_000, minutes=1.0)
    budget.go_on_from(90.0 if rank else 30.0)
    left = budget.left(0)
    leave()
    return left


def test_ranks_stop_together_whatever_their_clocks_say():
    first, second = jobs.ranks(2, what_is_left)
    assert first == second and abs(first - 0.5) < 0.05


def test_the_step_is_that_of_the_mean_gradient():
    alone = torch.nn.Parameter(torch.zeros(3))
    alone.grad = torch.tensor([0.2, 0.1, 0.05])
    torch.optim.Adam([alone], lr=0.1).step()
    first, second = jobs.ranks(2, one_averaged_step)
    for weight, gradient in (first, second):
        torch.testing.assert_close(gradient, alone.grad)
        torch.testing.assert_close(weight, alone.detach())


def test_ranks_see_other_arms_and_keep_one_policy():
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")
    first, second = jobs.ranks(2, three_updates)
    assert not torch.equal(first["first"], second["first"])
    for name, value in first["weights"].items():
        assert torch.equal(value, second["weights"][name]), name


@pytest.mark.parametrize("ranks", [1, 4])
def test_another_number_of_processes_is_refused(ranks, monkeypatch):
    """With fewer the others' arms would be missing in silence; with more some have no state."""
    trainer = still_trainer()
    state = trainer.state_dict() | {"ranks": ranks}
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=f"started with {ranks} processes and would go on with 2"):
        trainer.check_state(state, Path("step_00000001"))


def test_each_rank_keeps_its_own_draws_and_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, steps in (("0", 5), ("1", 7)):
        monkeypatch.setenv("RANK", rank)
        trainer = still_trainer()
        trainer.steps = steps
        trainer.write_own(tmp_path)
    fresh = still_trainer()
    fresh.read_own(tmp_path)
    assert fresh.steps == 7
    monkeypatch.setenv("RANK", "0")
    fresh.read_own(tmp_path)
    assert fresh.steps == 5


def still_trainer() -> PixelTrainer:
    policy = PixelActorCritic(9, 40, 2, body="small", width=16)
    return PixelTrainer(Still(), policy, PPOConfig(total_steps=8), budget=Budget(2))


class Still:
    """Arms that do not move."""

    num_envs = 2

    def reset(self, seed: int) -> torch.Tensor:
        return torch.zeros(2, 3, 40, 40, dtype=torch.uint8)


def rows_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    """Reward scale and clock come back; the arms begin other episodes than at the start."""
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")
    job = load_job()
    saved, wanted = 12, 14

    def config(name: str) -> Any:
        return job.Config(
            arms=8, steps=16, updates=wanted, save_every=saved, run_folder=str(tmp_path / name)
        )

    job.main(config("at once"))

    firsts, closed = [], []
    plain_step, plain_close = job.PixelTrainer.step, job.LocalArms.close

    def fails_after_the_checkpoint(trainer: Any, rate: float | None = None) -> dict[str, float]:
        if not firsts:
            firsts.append(trainer.observations.clone())
        number = len(list((tmp_path / "stopped" / "checkpoints").glob("step_*")))
        if number:
            raise RuntimeError("the machine is taken away")
        return plain_step(trainer, rate)

    def note_close(source: Any) -> None:
        closed.append(source)
        plain_close(source)

    monkeypatch.setattr(job.PixelTrainer, "step", fails_after_the_checkpoint)
    monkeypatch.setattr(job.LocalArms, "close", note_close)
    with pytest.raises(RuntimeError, match="taken away"):
        job.main(config("stopped"))
    assert len(closed) == 1, "the environments were not closed"
    before = rows_of(tmp_path / "stopped")
    assert len(before) == saved

    def notes_its_first(trainer: Any, rate: float | None = None) -> dict[str, float]:
        if len(firsts) == 1:
            firsts.append(trainer.observations.clone())
        return plain_step(trainer, rate)

    monkeypatch.setattr(job.PixelTrainer, "step", notes_its_first)
    result = job.main(config("stopped"))
    uninterrupted, resumed = rows_of(tmp_path / "at once"), rows_of(tmp_path / "stopped")
    assert len(resumed) == len(uninterrupted) == wanted
    for old, new in zip(uninterrupted[:saved], before, strict=True):
        assert old["value_loss"] == pytest.approx(new["value_loss"])
    # The episodes are others, so the losses differ; rewards that are not scaled are a thousand
    # times off.
    ratio = resumed[saved]["value_loss"] / uninterrupted[saved]["value_loss"]
    assert 1 / 30 < ratio < 30, ratio
    assert not torch.equal(firsts[0], firsts[1]), "the first targets came again"
    # Elapsed seconds go on: the rate counts all steps over all seconds.
    spent = before[-1]["steps"] / before[-1]["frames/s"]
    assert resumed[saved]["steps"] / resumed[saved]["frames/s"] > spent
    assert result["training_seconds"] > spent
    for part in ("simulator", "update"):
        assert resumed[saved][f"seconds in {part}"] > before[-1][f"seconds in {part}"]
