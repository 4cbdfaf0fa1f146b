"""Run folders with broken files: each is named, none hides the other runs, none is passed over."""

import json
import shutil
from pathlib import Path

import pytest

from bookkit.jobs import commands
from bookkit.jobs.compare import compare
from bookkit.jobs.recorded import open_side
from bookkit.jobs.runs_commands import compare as compare_command
from bookkit.jobs.status import status_rows
from nbkit.errors import UserError
from nbkit.runs.metrics_file import read_rows
from nbkit.runs.preemption import Preempted
from nbkit.runs.run_folder import find_runs, open_run

from .conftest import REPOSITORY
from .tiny_train import Config, main

FACTS = {"job": "tiny", "variant": "", "stages": [""], "gpus": 4, "price_per_gpu_hour": None}
BROKEN = {
    "job.json": ["", "[]", '{"stages": 3}', '{"stages": [3]}', '{"gpus": "x"}', "\xff"],
    "events.jsonl": ["{\n", "[]\n", '{"event": "running"}\n', "\xff\n"],
    "metrics.jsonl": ["{\n", "[1]\n", '{"loss": 1}\n', '{"step": 1, "loss": [2]}\n', "\xff\n"],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A whole run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NBKIT_TRACKERS", "")
        main(Config(run_folder=str(folder)))
    (folder / "job.json").write_text(json.dumps(FACTS))
    return folder


@pytest.fixture
def run(finished, tmp_path, monkeypatch) -> Path:
    """A copy of it to be broken, beside a whole one."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    for name in ("broken", "whole"):
        shutil.copytree(finished, tmp_path / name)
    return tmp_path / "broken"


def put(path: Path, text: str) -> None:
    path.write_bytes(text.encode("latin-1"))


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in BROKEN.items() for t in ts])
def test_status_names_a_broken_file_and_shows_the_other_runs(run, name, text):
    put(run / name, text)
    rows = status_rows(find_runs(run.parent), {}, run.parent)
    assert [row[0] for row in rows[1:]] == ["broken", "whole"]
    assert rows[1][1].startswith(f"unreadable: broken/{name}") and "line 1 col" not in rows[1][0]
    assert rows[2][:4] == ("whole", "finished", "-", "8")


def test_status_of_a_named_run_that_is_broken(run, capsys):
    put(run / "job.json", "")
    commands.status([run, run.with_name("whole")])
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert "unreadable:" in first and f"{run}/job.json: not JSON" in first
    assert "finished" in second
    with pytest.raises(UserError, match="is no run folder"):
        commands.status([run / "checkpoints"])


def test_submit_names_a_broken_job_json(run, make_job, monkeypatch):
    monkeypatch.setattr("bookkit.jobs.judge.VALIDATE", "")
    put(run / "job.json", "")
    with pytest.raises(UserError, match=r"broken/job.json: not JSON"):
        commands.submit(str(make_job().parent), run=run)


def test_a_half_line_of_events_is_no_event_and_spoils_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    folder = tmp_path / "run"
    with pytest.raises(Preempted):
        main(Config(run_folder=str(folder), stop_at=4))
    whole = open_run(folder).stages[0].events
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event": "runn')
    assert open_run(folder).stages[0].events == whole
    main(Config(run_folder=str(folder)))
    events = open_run(folder).stages[0].events
    assert events[: len(whole)] == whole
    assert [event["event"] for event in events[len(whole) :]][:2] == ["running", "resumed"]
    assert '{"event": "runn' not in (folder / "events.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("result.json", None, r"broken/result.json is missing, though the stage has finished"),
        ("stamp.json", None, r"broken/stamp.json is missing, though the stage has finished"),
        ("stamp.json", "{}", r"broken/stamp.json has no config, seeds, device_name"),
        ("stamp.json", "{", r"broken/stamp.json: not JSON"),
        ("result.json", "{}", r"broken/result.json has no stamp"),
        ("result.json", '{"stamp": 1}', r"broken/result.json: its stamp lacks"),
        ("metrics.jsonl", "{\n", r"broken/metrics.jsonl:1: not a line of JSON"),
    ],
)
def test_report_names_what_a_finished_stage_lacks(run, make_job, name, text, says):
    if text is None:
        (run / name).unlink()
    else:
        put(run / name, text)
    job = make_job().parent
    with pytest.raises(UserError, match=says):
        commands.report(run, job=str(job), label="x")
    assert not (job / "results").exists()


def test_compare_does_not_pass_over_a_broken_run(run):
    """It compared whatever .json lay in the folder instead."""
    whole = run.with_name("whole")
    for name in ("stamp.json", "config.json", "result.json", "job.json"):
        kept = (run / name).read_text()
        put(run / name, "{")
        with pytest.raises(UserError, match=rf"broken/{name}: not JSON"):
            compare_command(run, whole)
        (run / name).write_text(kept)
    compare_command(run, whole)


@pytest.mark.parametrize(
    "text",
    [
        '{"stamp": {}, "gpu_hours": 1, "stages": {}}',
        '{"stamp": {}, "gpu_hours": 1, "stages": {"a": 1}, "state": "", "attempts": 1, "cost": ""}',
        '{"stamp": {"config": [1]}}',
    ],
)
def test_compare_names_a_result_of_another_form(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"a.json: (not what|the stamp's config)"):
        compare_command(path, path)


def test_a_stamp_says_how_many_processes_there_were(run, make_job):
    job = make_job().parent
    commands.report(run, job=str(job), label="x")
    kept = json.loads((job / "results/x/result.json").read_text())
    assert kept["stages"]["all"]["ranks"] == kept["stamp"]["ranks"] == 1
    stamp = json.loads((run / "stamp.json").read_text())
    (run / "stamp.json").write_text(json.dumps(stamp | {"ranks": 2}))
    rows = compare(open_side(run), open_side(job / "results/x"))
    assert ("ranks", "2", "1") in rows


def test_entries_of_lists_meet_by_their_names(tmp_path):
    def entry(name, value):
        return {"setting": {"name": name}, "seconds": value, "notes": "x" * 200 + str(value)}

    for name, entries in (("a", [entry("one", 1), entry("two", 2)]), ("b", [entry("two", 3)])):
        content = {"stamp": {}, "configurations": entries, "list": [{"name": name}, {"name": "c"}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    rows = compare(open_side(tmp_path / "a.json"), open_side(tmp_path / "b.json"))
    found = {name: values for name, *values in rows}
    assert found["result configurations.two.seconds"] == ["2", "3"]
    assert found["result configurations.one.seconds"] == ["1", ""]
    assert found["result list.a.name"] == ["a", ""] and "result list.c.name" not in found
    assert found["result configurations.two.notes"] == ["x" * 59 + "…"] * 2  # they differ behind it
    assert all(len(value) <= 60 for values in found.values() for value in values)


def test_rows_without_a_name_keep_their_number(tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        content = {"stamp": {}, "list": [{"x": value}, {"name": "c", "x": 0}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    rows = compare(open_side(tmp_path / "a.json"), open_side(tmp_path / "b.json"))
    assert rows[0] == ("result list.0.x", "1", "2")


def test_rows_are_numbers_with_a_whole_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": "nan"}\n{"step": 2, "lo')
    (row,) = read_rows(path)
    assert row["step"] == 1 and isinstance(row["step"], int) and row["loss"] != row["loss"]
