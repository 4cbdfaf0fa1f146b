"""Limits of steps in a row from job.yaml to the run, and samples from the run to the report."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bookkit.jobs import commands
from bookkit.jobs.job_file import JobError, load_job
from bookkit.jobs.report import SAMPLE_LETTERS, chosen_samples
from nbkit.runs.limits import VARIABLE, StepLimits, step_limits
from nbkit.runs.run import Run
from nbkit.runs.samples import Sample, append_samples, cut_samples_after, read_samples

from .conftest import REPOSITORY

SAMPLES = [Sample("2+2=", "4\n", 1.0, {"correct": 1.0}, 0.5), Sample("2+3=", "six 🙂")]


def test_limits_go_from_the_job_file_to_the_run(make_job, monkeypatch):
    launch = make_job(limits={"silent_steps": 20, "bad_batches": 5})
    script = (launch / "torchrun.sh").read_text()
    (line,) = [found for found in script.splitlines() if VARIABLE in found]
    assert line == f"export {VARIABLE}=silent_steps=20,bad_batches=5"
    told = subprocess.run(
        ["bash", "-c", f"{line}; {sys.executable} -c "
         "'from nbkit.runs.limits import step_limits; print(step_limits())'"],
        cwd=REPOSITORY, env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert told == "StepLimits(silent_steps=20, bad_batches=5)\n"
    monkeypatch.setenv(VARIABLE, line.partition("=")[2])
    assert step_limits() == StepLimits(20, 5)


def test_without_limits_the_scripts_are_as_they_were(make_job):
    launch = make_job(limits={"bad_batches": 3, "silent_steps": 0})
    assert all(VARIABLE not in path.read_text() for path in launch.iterdir())


@pytest.mark.parametrize(
    ("given", "says"), [({"silent_steps": -1}, "limits.silent_steps"), ({"bad_batches": 0}, "1")]
)
def test_faulty_limits_are_named_with_their_line(make_job, given, says):
    folder = make_job().parent
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text + f"limits: {json.dumps(given)}\n")
    with pytest.raises(JobError, match=says) as refused:
        load_job(folder / "job.yaml")
    assert f"job.yaml:{text.count(chr(10)) + 1}: " in str(refused.value)


def test_samples_survive_a_kill_and_a_resumption(tmp_path):
    path = tmp_path / "samples.jsonl"
    for step in (1, 2, 3):
        append_samples(path, step, SAMPLES)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])  # a kill while the last line was written
    assert read_samples(path) == [(s, x) for s in (1, 2, 3) for x in SAMPLES][:-1]
    cut_samples_after(path, 2)
    assert path.read_bytes() == whole[: len(whole) * 2 // 3]
    append_samples(path, 3, SAMPLES)
    assert path.read_bytes() == whole
    with path.open("a") as file:
        file.write('{"step": 4}\n')
    with pytest.raises(ValueError, match=r"samples.jsonl:7: not a sample"):
        read_samples(path)
    assert read_samples(tmp_path / "none") == []


def test_a_run_that_goes_on_has_each_sample_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")

    class KilledError(Exception):
        pass

    with pytest.raises(KilledError), Run.start({}, seeds=(), folder=tmp_path) as run:
        for step in (1, 2, 3):
            run.log(step, {"loss": 0.0})
            run.samples(step, SAMPLES)
            run.checkpoint(step, lambda: {"a": 1}, every=2)
        with (tmp_path / "samples.jsonl").open("a") as file:
            file.write('{"step": 4, "prom')
        raise KilledError
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        found = run.resume()
        assert found is not None and found.step == 2
        run.samples(3, SAMPLES)
        run.finish({})
    assert [step for step, _ in read_samples(tmp_path / "samples.jsonl")] == [1, 1, 2, 2, 3, 3]


def test_only_the_first_rank_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        run.is_main = False
        run.samples(1, SAMPLES)
        assert not (tmp_path / "samples.jsonl").exists()
        run.is_main = True
        run.samples(1, [])
        assert not (tmp_path / "samples.jsonl").exists()
        run.finish({})
    Run.start({}, seeds=()).samples(1, SAMPLES)  # without a folder nothing is written


def test_trackers_get_the_samples(tmp_path, monkeypatch):
    tables = []
    fake = SimpleNamespace(
        init=lambda **given: SimpleNamespace(
            log=lambda row, step: tables.append((step, row)), finish=lambda: None
        ),
        Table=lambda columns, data: [dict(zip(columns, row, strict=True)) for row in data],
    )
    fake.__spec__ = SimpleNamespace(name="wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("NBKIT_TRACKERS", "wandb,tensorboard")
    with Run.start({}, seeds=(), folder=tmp_path) as run:
        run.log(1, {"loss": 0.0})
        run.samples(1, SAMPLES)
        run.finish({})
    step, row = tables[-1]
    assert step == 1 and [one["text"] for one in row["samples"]] == ["4\n", "six 🙂"]
    assert row["samples"][0]["parts"] == '{"correct": 1.0}'
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = seen.Tensors("samples/text_summary")
    text = event.tensor_proto.string_val[0].decode()
    assert event.step == 1 and "wrote: 'six 🙂'" in text and "correct 1, advantage +0.5" in text


def test_the_report_keeps_a_few_samples(make_job, tmp_path, monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    folder, path = make_job().parent, tmp_path / "run"
    with Run.start({}, seeds=(), folder=path) as run:
        for step in range(1, 6):
            run.log(step, {"loss": 0.0})
            run.samples(step, [Sample("?", "x" * 3000, float("nan"))] * 5)
        run.finish({})
    commands.report(path, job=str(folder), label="here")
    text = (folder / "results" / "here" / "result.json").read_text()
    kept = json.loads(text)["stages"]["all"]["samples"]
    assert [one["step"] for one in kept] == [1] * 3 + [3] * 3 + [5] * 3
    assert len(kept[0]["text"]) == SAMPLE_LETTERS and kept[0]["reward"] == "nan"
    assert "NaN" not in text and chosen_samples([]) == []
