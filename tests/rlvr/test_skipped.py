"""Batches on which no step is taken: skipped, counted, saved, and limited."""

import json
import math

import pytest
import torch

from nbkit.runs.limits import VARIABLE
from nbkit.runs.run import read_state
from nbkit.trainers.watch import KEPT_BATCHES, bad_batches, reached, save_refused
from tests.rlvr.job import fit, plain, trainer

pytestmark = pytest.mark.chapter(23)


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


class Spoiled:
    """A reward that is as `in_parts`; the model's logits are nan in the updates of some steps."""

    def __init__(self, one, steps):
        self.one, self.steps = one, steps
        one.parallel.model.register_forward_hook(self)

    def __call__(self, module, inputs, output):
        if len(self.one.history) + 1 in self.steps and torch.is_grad_enabled():
            output.logits = output.logits * torch.nan
        return output


def spoiled(steps, **changes):
    one = trainer(updates=7, learning_rate=1e-2, **changes)
    Spoiled(one, steps)
    return one


def test_a_bad_batch_is_skipped_counted_and_saved(tmp_path, capsys):
    one, right = spoiled({2, 4}), trainer(updates=1, learning_rate=1e-2)
    right.run(progress=False)
    fit(one, tmp_path)
    assert [row["skipped"] for row in one.history] == [0, 1, 0, 1, 0, 0, 0]
    assert [row["steps"] for row in one.history] == [1, 0, 1, 0, 1, 1, 1]
    assert all(p.isfinite().all() for p in one.model.parameters())
    assert one.history[0]["loss"] == right.history[0]["loss"]
    assert sorted(p.name for p in (tmp_path / "skipped").iterdir()) == [
        "step_00000002.pt",
        "step_00000004.pt",
    ]
    batch = torch.load(tmp_path / "skipped" / "step_00000002.pt", weights_only=True)
    assert batch["ids"].shape[0] == 16 and batch["advantages"].isfinite().all()
    assert batch["skipped"] == 1 and batch["gradient_norm"] != batch["gradient_norm"]
    words = capsys.readouterr().out
    assert "1 gradient step(s) skipped" in words and "skipped/step_00000002.pt" in words
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[1]["gradient_norm"] == "nan" and rows[1]["skipped"] == 1


def test_weights_stay_to_the_bit_and_good_minibatches_count():
    one = spoiled({1})
    before = [p.clone() for p in one.model.parameters()]
    one.step()
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))
    half = trainer(updates=3, minibatches=2, learning_rate=1e-2)
    passes = []

    def once(module, inputs, output):
        if torch.is_grad_enabled():
            passes.append(None)
            if len(passes) == 1:
                output.logits = output.logits * torch.nan
        return output

    half.parallel.model.register_forward_hook(once)
    row = half.step()
    assert (row["skipped"], row["steps"]) == (1, 1)
    assert row["loss"] == row["loss"] and row["gradient_norm"] > 0
    assert not torch.equal(before[0], next(half.model.parameters()))


def test_a_limit_of_bad_batches_ends_the_run_after_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "bad_batches=2")
    one = spoiled({2, 4, 5})
    with pytest.raises(RuntimeError, match="2 steps in a row"):
        fit(one, tmp_path)
    assert len(one.history) == 5 and read_state(tmp_path) == "failed"
    again = trainer(updates=7, learning_rate=1e-2)
    fit(again, tmp_path)  # goes on from step 5
    monkeypatch.setenv(VARIABLE, "bad_batches=3")
    whole = spoiled({2, 4, 5})
    fit(whole, tmp_path / "whole")
    assert plain(again) == plain(whole)


def test_on_a_page_three_in_a_row_end_it(tmp_path):
    one = spoiled({2, 3, 4})
    with (
        pytest.warns(UserWarning, match="3 such step"),
        pytest.raises(RuntimeError, match="3 steps in a row"),
    ):
        one.run(progress=False, checkpoint=tmp_path / "run.pt")
    again = trainer(updates=7, learning_rate=1e-2)
    again.run(progress=False, checkpoint=tmp_path / "run.pt")
    assert [row["skipped"] for row in again.history] == [0, 1, 1, 1, 0, 0, 0]


def test_rows_and_files_of_skipped_batches(tmp_path):
    rows = [{"skipped": 1.0}, {}, {"skipped": 2.0}, {"skipped": 1.0}]
    assert bad_batches(rows) == 2 and bad_batches(rows[:2]) == 0 == bad_batches([])
    assert [reached(n, 2) for n in range(5)] == [False, False, True, False, True]
    assert not reached(4, 0)
    for step in range(KEPT_BATCHES):
        assert save_refused(tmp_path, step, {"a": torch.ones(1)}) is not None
    assert save_refused(tmp_path, 99, {"a": torch.ones(1)}) is None
    assert save_refused(tmp_path, 3, {"a": torch.ones(1)}) is not None  # taken again


def test_an_infinite_loss_takes_no_step_although_its_gradient_is_finite():
    """log 0 of a banned token: the loss is inf, its gradient in the logits 1 - p."""
    one = trainer()
    one.model.zero_grad()
    net = one.parallel.model
    logits = net(input_ids=torch.tensor([[2, 3, 4]])).logits
    before = [p.clone() for p in one.model.parameters()]
    one.parallel.backward(logits.sum() + torch.tensor(torch.inf))
    assert math.isnan(one.parallel.try_step())
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))
