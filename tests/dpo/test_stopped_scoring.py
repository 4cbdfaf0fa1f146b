"""A job of DPO told to stop while its reference scores all pairs, or before it is measured."""

import pytest

from nbkit.runs.preemption import Preempted
from nbkit.runs.run import Run
from nbkit.trainers.dpo import trainer as dpo_trainer
from tests.dpo.small import trainer


@pytest.fixture(autouse=True)
def no_trackers(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


def scored(monkeypatch, at=None, stop=None):
    """Count the parts that are scored; touch the file at one of them."""
    calls, plain = [], dpo_trainer.score_pairs

    def counted(*args, **kwargs):
        calls.append(None)
        if len(calls) == at:
            stop.touch()
        return plain(*args, **kwargs)

    monkeypatch.setattr(dpo_trainer, "score_pairs", counted)
    return calls


def test_scoring_the_reference_looks_for_stop(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    calls = scored(monkeypatch, 1, run / "STOP")
    one = trainer()
    assert not calls  # nothing is scored before it is needed
    with pytest.raises(Preempted), Run.start({}, seeds=(), folder=run) as job:
        one.fit(job, save_every=1)
    assert len(calls) == 1 and one.done == 0
    assert (run / "state").read_text() == "preempted\n"
    (run / "STOP").unlink()
    with Run.start({}, seeds=(), folder=run) as job:
        trainer().fit(job, save_every=1)
        job.finish({})


def test_a_resumed_run_scores_nothing_anew(tmp_path, monkeypatch):
    first = trainer()
    with pytest.raises(Preempted), Run.start({}, seeds=(), folder=tmp_path) as job:
        (tmp_path / "STOP").touch()
        plain, first.poll = first.poll, lambda: None  # past the scoring, to the first step
        first.fit(job, save_every=0)
    assert plain is not None and first.done == 1
    (tmp_path / "STOP").unlink()
    calls = scored(monkeypatch)
    with Run.start({}, seeds=(), folder=tmp_path) as job:
        second = trainer()
        second.fit(job, save_every=0)
        job.finish({})
    assert not calls and second.finished


def test_a_step_that_was_stopped_before_it_was_measured_is_measured_later(tmp_path):
    measured = []

    def measure():
        measured.append(None)
        return {"held out": float(len(measured))}

    first = trainer()
    plain = first.step

    def step():
        found = plain()
        if first.done == 2:
            (tmp_path / "STOP").touch()
        return found

    first.step = step
    with pytest.raises(Preempted), Run.start({}, seeds=(), folder=tmp_path) as job:
        first.fit(job, save_every=0, measure=measure, measure_every=2)
    assert first.done == 2 and not measured
    (tmp_path / "STOP").unlink()
    with Run.start({}, seeds=(), folder=tmp_path) as job:
        second = trainer()
        second.fit(job, save_every=0, measure=measure, measure_every=2)
        rows = list(job.history)
        job.finish({})
    assert [row["step"] for row in rows] == list(range(1, second.done + 1))
    assert [row["step"] for row in rows if "held out" in row] == [
        step for step in range(1, second.done + 1) if step % 2 == 0 or step == second.done
    ]
