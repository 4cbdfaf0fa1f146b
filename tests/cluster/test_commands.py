"""`nbkit job` and `nbkit runs`: what they show, what they write, what they refuse."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookkit.jobs import commands, digits
from bookkit.jobs.job_file import JobError
from bookkit.jobs.render import render
from bookkit.jobs.report import pictures, thin
from bookkit.jobs.report import report as report_of
from bookkit.jobs.runs_commands import compare as compare_command
from bookkit.jobs.status import status_rows
from bookkit.jobs.submit import Submission, run_here
from nbkit.errors import UserError
from nbkit.runs.preemption import Preempted
from nbkit.runs.run_folder import StageFolder, find_runs, open_run

from .conftest import BIG, JOB, REPOSITORY
from .tiny_train import Config, main


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture
def values_unchecked(monkeypatch):
    """Checking values loads the training script and with it torch; one test of that is enough."""
    monkeypatch.setattr("bookkit.jobs.judge.VALIDATE", "")


def make_run(folder: Path, *, facts: dict | None = None, attempts=("100 3700",), **changes) -> Path:
    """A run of the tiny script, with what a launcher adds to its folder."""
    main(Config(run_folder=str(folder), **changes))
    dress(folder, facts, attempts)
    return folder


def dress(folder: Path, facts: dict | None = None, attempts=("100 3700",)) -> None:
    whole = {"job": "tiny", "variant": "", "stages": [""], "gpus": 4}
    whole |= {"price_per_gpu_hour": 2.0, "currency": "EUR"} | (facts or {})
    (folder / "job.json").write_text(json.dumps(whole))
    (folder / "attempts").mkdir()
    for number, text in enumerate(attempts):
        (folder / "attempts" / str(number)).write_text(text + "\n")


@pytest.mark.usefixtures("values_unchecked")
def test_submit_shows_the_exact_command_and_starts_nothing(make_job, tmp_path, capsys, monkeypatch):
    folder = make_job().parent
    monkeypatch.setattr("bookkit.jobs.submit.submit", lambda *a: pytest.fail("it was started"))
    run = tmp_path / "it's a run"
    commands.submit(str(folder), run=run)
    output = capsys.readouterr().out.splitlines()
    assert output[1] == (
        f"sbatch --parsable --chdir={REPOSITORY} '--output={tmp_path}/it'\"'\"'s a run/logs/"
        f"slurm-%j.out' '{tmp_path}/it'\"'\"'s a run/launch/slurm.sbatch' "
        f"'{tmp_path}/it'\"'\"'s a run'"
    )
    assert "this was a dry run" in output[2] and not run.exists()


@pytest.mark.usefixtures("values_unchecked")
def test_submit_yes_runs_the_command_that_it_shows(make_job, tmp_path, capsys, monkeypatch):
    folder = make_job().parent
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" >{tmp_path}/got\necho 4711\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent))
    commands.submit(str(folder), run=tmp_path / "run", yes=True)
    assert "4711" in capsys.readouterr().out.splitlines()
    assert (tmp_path / "got").read_text().splitlines()[-2:] == [
        str(tmp_path / "run" / "launch" / "slurm.sbatch"),
        str(tmp_path / "run"),
    ]
    names = {path.name for path in (tmp_path / "run" / "launch").iterdir()}
    assert names == {"slurm.sbatch", "torchrun.sh", "config.yaml"}
    sbatch.write_text("#!/bin/bash\nexit 1\n")
    with pytest.raises(UserError, match="it ended with exit status 1: sbatch --parsable"):
        commands.submit(str(folder), run=tmp_path / "other" / "run", yes=True)
    sbatch.unlink()
    with pytest.raises(UserError, match="sbatch is not installed here; submit where Slurm is"):
        commands.submit(str(folder), run=tmp_path / "other" / "run", yes=True)
    assert (tmp_path / "run" / "logs").is_dir() and not (tmp_path / "other").exists()


@pytest.mark.usefixtures("values_unchecked")
def test_a_variant_is_submitted_from_its_run_folder(make_job, tmp_path, monkeypatch):
    folder = make_job(variants={"three": {"processes": 3}}).parent
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/bash\necho "$NBKIT_LAUNCH" >{tmp_path}/digest\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent))
    digests = {}
    for variant in ("", "three"):
        commands.submit(str(folder), variant=variant, run=tmp_path / f"run{variant}", yes=True)
        digests[variant] = (tmp_path / "digest").read_text().strip()
    assert "--nproc-per-node=3" in (tmp_path / "runthree" / "launch" / "torchrun.sh").read_text()
    assert len(set(digests.values())) == 2
    # Where the run lies does not count: the digest is that of the files beside job.yaml.
    kept = "".join(file.text for file in render(folder, REPOSITORY))
    assert digests[""] == hashlib.sha256(kept.encode()).hexdigest()[:16]
    script = tmp_path / "runthree" / "launch" / "torchrun.sh"
    script.write_text(script.read_text() + "# by hand\n")
    with pytest.raises(UserError, match=r"torchrun.sh was edited by hand"):
        commands.submit(str(folder), variant="three", run=tmp_path / "runthree", yes=True)


def test_a_stamp_keeps_the_digest_of_the_scripts(tmp_path, monkeypatch):
    monkeypatch.setenv("NBKIT_LAUNCH", "0123456789abcdef")
    main(Config(run_folder=str(tmp_path / "a"), steps=1))
    monkeypatch.delenv("NBKIT_LAUNCH")
    main(Config(run_folder=str(tmp_path / "b"), steps=1))
    stamps = [json.loads((tmp_path / name / "stamp.json").read_text()) for name in "ab"]
    assert stamps[0]["launch"] == "0123456789abcdef" and "launch" not in stamps[1]


def test_render_shows_a_variant_or_writes_all_its_files(make_job, tmp_path, capsys):
    folder = make_job(base=BIG, variants={"small": {"nodes": 1}}).parent
    commands.render(str(folder), variant="small")
    shown = capsys.readouterr().out
    assert "--nnodes=1" in shown and "--nnodes=2" not in shown and "drive_slurm_job" in shown
    commands.render(str(folder), variant="small", to=tmp_path / "to")
    names = {path.name for path in (tmp_path / "to").iterdir()}
    scripts = {"torchrun.sh", "deepspeed.sh", "slurm.sbatch", "config.yaml"}
    assert names == scripts | {"accelerate.yaml", "ds_config.json"}
    assert {path.name for path in (folder / "launch").iterdir()} == scripts
    with pytest.raises(UserError, match="name the job"):
        commands.render(variant="small")
    with pytest.raises(UserError, match="there is no variant 'other'"):
        commands.render(str(folder), variant="other")


def script_of(tmp_path: Path, text: str) -> Submission:
    script = tmp_path / "script.sh"
    script.write_text(text)
    return Submission(("bash", str(script)), tmp_path / "run")


def test_a_local_run_says_how_it_ended(tmp_path, capfd):
    assert run_here(script_of(tmp_path, "echo step 1\nexit 0\n"), tmp_path)
    assert "step 1" in capfd.readouterr().out
    assert not run_here(script_of(tmp_path, f"exit {Preempted.STATUS}\n"), tmp_path)
    with pytest.raises(JobError, match="it ended with exit status 3: bash"):
        run_here(script_of(tmp_path, "exit 3\n"), tmp_path)
    assert commands.STOPPED == Preempted.STATUS


HERE = """
import sys
import time
from pathlib import Path
from bookkit.jobs.submit import Submission, run_here
folder = Path(sys.argv[1])
started = Submission(("bash", str(folder / "script.sh")), folder / "run")
print("finished:", run_here(started, folder))
"""
SAVES = """
trap 'sleep 0.3; touch saved; exit 75' INT TERM
touch began
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_local_run_waits_until_the_script_has_saved(tmp_path, number, to_group):
    (tmp_path / "script.sh").write_text(SAVES)
    command = [sys.executable, "-c", HERE, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 300
    while not (tmp_path / "began").exists():
        assert time.monotonic() < end, "the script did not begin"
        time.sleep(0.02)
    (os.killpg if to_group else os.kill)(process.pid, number)  # a terminal signals the group
    output, _ = process.communicate(timeout=300)
    assert (tmp_path / "saved").exists() and "finished: False" in output and process.returncode == 0


@pytest.mark.slow
def test_submit_refuses_what_would_fail_later(make_job, tmp_path):
    folder = make_job(arguments={"steps": "many"}).parent
    with pytest.raises(UserError, match=r"yaml:\d+: arguments.steps: Config refuses 'many'"):
        commands.submit(str(folder))
    job = folder / "job.yaml"
    job.write_text(job.read_text().replace("many", "7"))
    with pytest.raises(UserError, match=r"is not what job.yaml gives now"):
        commands.submit(str(folder))
    with pytest.raises(UserError, match=r"there is no job 'nothing' with a job.yaml"):
        commands.submit("nothing")
    good = make_job("good").parent
    with pytest.raises(UserError, match="holds a finished run"):
        commands.submit(str(good), run=make_run(tmp_path / "run"))
    with pytest.raises(UserError, match="the launchers are torchrun and deepspeed"):
        commands.submit(str(good), local="mpirun")
    (good / "train.py").write_text("import nowhere\nclass Config:\n    backend: str = ''\n")
    with pytest.raises(UserError, match="cannot be loaded here: ModuleNotFoundError"):
        commands.submit(str(good))


@pytest.mark.usefixtures("values_unchecked")
def test_the_dry_run_refuses_what_no_launcher_could_do(make_job, tmp_path, capsys):
    plain = make_job().parent
    with pytest.raises(UserError, match=r"--local deepspeed: .*deepspeed.sh does not exist: .*ddp"):
        commands.submit(str(plain), run=tmp_path / "run", local="deepspeed")
    commands.submit(str(plain), run=tmp_path / "run", local="torchrun")
    big = make_job("big", base=BIG).parent
    with pytest.raises(UserError, match="big is a job of 2 nodes, which needs Slurm"):
        commands.submit(str(big), run=tmp_path / "run", local="torchrun")
    commands.submit(str(big), run=tmp_path / "run")
    (tmp_path / "file").touch()
    for run in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"file is a file, and the run folder is to be"):
            commands.submit(str(plain), run=run)
    boxed = make_job("boxed", container={"image": "x.sif"}).parent
    for name in ("a:b", "a,b"):
        commands.submit(str(plain), run=tmp_path / name)
        with pytest.raises(UserError, match="a colon or a comma, at which a container's binds"):
            commands.submit(str(boxed), run=tmp_path / name)
    assert not (tmp_path / "run").exists()


def test_render_writes_then_finds_nothing_to_do(make_job, capsys):
    folder = make_job().parent
    (folder / "launch" / "torchrun.sh").unlink()
    with pytest.raises(UserError, match=r"torchrun.sh: does not exist"):
        commands.render(str(folder), check=True)
    commands.render(str(folder))
    assert "torchrun.sh: written" in capsys.readouterr().out
    commands.render(str(folder), check=True)
    assert "3 files of 1 jobs are what their job files give" in capsys.readouterr().out


def test_status_says_how_far_each_run_is(tmp_path):
    make_run(tmp_path / "a", attempts=("100 1900", "5000 5900"))
    with pytest.raises(Preempted):
        main(Config(run_folder=str(tmp_path / "b"), stage="sft", stop_at=4))
    dress(tmp_path / "b", {"stages": ["sft", "ppo"], "price_per_gpu_hour": None})
    rows = status_rows(find_runs(tmp_path), {}, tmp_path)
    assert rows[1] == ("a", "finished", "-", "8", "2", "0.75", "3.00", "6.00 EUR", "-")
    assert rows[2][:4] == ("b", "preempted", "sft", "4")
    main(Config(run_folder=str(tmp_path / "b"), stage="sft"))
    assert open_run(tmp_path / "b").state == "between stages"
    (tmp_path / "a" / "state").write_text("running\n")
    assert open_run(tmp_path / "a").state == "interrupted"
    with pytest.raises(ValueError, match="is no run folder"):
        open_run(tmp_path / "b" / "attempts")


def test_report_keeps_a_small_stamped_result_and_the_curves(make_job, tmp_path):
    folder = make_job().parent
    run = make_run(tmp_path / "run", facts={"job": str(folder)}, steps=400, save_every=0)
    commands.report(run, label="cpu")
    kept = folder / "results" / "cpu"
    assert sorted(path.name for path in kept.iterdir()) == ["curves.png", "result.json"]
    assert (kept / "result.json").stat().st_size < 40_000
    result = json.loads((kept / "result.json").read_text())
    assert result["device_name"] == result["stamp"]["device_name"] != ""
    assert (result["gpu_hours"], result["cost"]) == (4.0, "8.00 EUR")
    curves = result["stages"]["all"]["curves"]
    assert len(curves["loss"]) == 200 and (curves["step"][0], curves["step"][-1]) == (1, 400)
    assert result["stages"]["all"]["result"]["weights"]
    for picture in (kept / "curves.png", run / "plots" / "curves.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 150_000
    assert str(tmp_path) not in (kept / "result.json").read_text().replace(
        json.dumps(str(run)), ""
    ).replace(json.dumps(str(folder)), "")


def test_a_run_that_has_not_finished_is_not_reported(tmp_path, make_job):
    folder = make_job().parent
    with pytest.raises(Preempted):
        main(Config(run_folder=str(tmp_path / "run"), stop_at=4))
    with pytest.raises(UserError, match="does not say which job"):
        commands.report(tmp_path / "run")
    with pytest.raises(UserError, match=r"no stage has finished \(preempted\)"):
        commands.report(tmp_path / "run", job=str(folder))


def test_many_metrics_are_spread_over_figures(tmp_path):
    rows = [{"step": n, **{f"metric {i}": n * i % 7 for i in range(13)}} for n in range(1, 300)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn = dict(pictures(StageFolder("ppo", tmp_path)))
    assert list(drawn) == ["curves_ppo_1.png", "curves_ppo_2.png"]
    assert all(len(picture) < 150_000 for picture in drawn.values())


def test_thinned_curves_keep_both_ends():
    rows = [{"step": step} for step in range(1000)]
    kept = thin(rows, 7)
    assert len(kept) == 7 and (kept[0]["step"], kept[-1]["step"]) == (0, 999)
    assert thin(rows[:5], 7) == rows[:5]


def test_compare_lists_what_differs(tmp_path, capsys):
    a = make_run(tmp_path / "a")
    b = make_run(tmp_path / "b", learning_rate=0.1, steps=6)
    compare_command(a, b)
    lines = {
        line.split("  ")[0]: line.split()[-2:] for line in capsys.readouterr().out.splitlines()
    }
    assert lines["setting learning_rate"] == ["0.05", "0.1"]
    assert lines["setting steps"] == ["8", "6"]
    assert "setting seed" not in lines and "setting run_folder" not in lines
    assert "loss at step 6" in lines and lines["loss at step 6"][0] != lines["loss at step 6"][1]
    main(Config(run_folder=str(tmp_path / "c"), stage="sft"))
    with pytest.raises(UserError, match="no stage in common"):
        compare_command(a, tmp_path / "c")


def compared(a: Path, b: Path, capsys) -> dict[str, list[str]]:
    """What `nbkit runs compare` prints, by the name of its row."""
    capsys.readouterr()
    compare_command(a, b)
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()[1:]]
    return {row[0]: row[1:] for row in rows}


def test_a_run_is_compared_with_the_recorded_result_of_another(tmp_path, capsys):
    """A run against itself as reported, against another's report, and two reports."""
    a = make_run(tmp_path / "a")
    b = make_run(tmp_path / "b", learning_rate=0.1, attempts=("100 3700", "4000 4900"))
    for name, run in (("kept_a", a), ("kept_b", b)):
        report_of(open_run(run), tmp_path / name)
    itself = compared(a, tmp_path / "kept_a", capsys)
    assert itself["cost"] == ["8.00 EUR", "8.00 EUR"] and itself["attempts"] == ["1", "1"]
    assert itself["loss at step 8"][0] == itself["loss at step 8"][1]
    assert itself["results that are equal"] == ["2", "2"]
    assert not [name for name in itself if name.startswith(("setting", "result ", "package"))]

    whole = compared(a, b, capsys)
    assert whole["setting learning_rate"] == ["0.05", "0.1"]
    assert whole["result loss"][0] != whole["result loss"][1]
    assert whole["GPU hours"] == ["4.00", "5.00"]
    for one, other in ((a, "kept_b"), (tmp_path / "kept_a", "kept_b/result.json")):
        assert compared(one, tmp_path / other, capsys) == whole


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(-9, 9))
def test_a_number_and_its_record_look_the_same(value, exponent):
    """0.0148134996 is 0.0148135 in a report: one rounding shows 0.014813, another 0.014814."""
    for number in (value, (0.0148135 - 4e-10) * 10.0**exponent):
        assert digits.shown(float(digits.kept(number))) == digits.shown(number)


def test_results_that_the_book_keeps_can_be_compared(tmp_path, capsys):
    """Stages of jobs and single files; every one that is committed is read."""
    kept = REPOSITORY / "cluster_scripts" / "rlhf_7b" / "results"
    found = compared(kept / "h200_1b5", kept / "h200_7b", capsys)
    assert not [name for name in found if name.startswith(("sft", "reward"))]  # 7b has ppo only
    assert "ppo: result peak_gib" in found or any("at step" in name for name in found)
    grpo = REPOSITORY / "cluster_scripts" / "grpo_gsm8k" / "results" / "h200"
    same = compared(grpo, grpo, capsys)
    assert {"grpo: results that are equal", "sft: results that are equal"} <= same.keys()
    assert compared(grpo / "result.json", grpo, capsys).keys() == same.keys()
    files = list((REPOSITORY / "studies" / "results").glob("*.json"))
    assert files
    for path in files:
        assert set(compared(path, path, capsys)) <= {"results that are equal"}


def test_what_is_neither_run_nor_result_is_named(tmp_path):
    a = tmp_path / "a.json"
    a.write_text('{"stamp": {"config": {"steps": 1}, "seeds": [0]}, "loss": 1.0}')
    for text, says in (("{", "not JSON"), ("[]", "not a mapping"), ('{"loss": 1}', "no stamp")):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(UserError, match=says):
            compare_command(a, tmp_path / "b.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"neither a run folder .* nor recorded results"):
        compare_command(a, tmp_path / "empty")


@pytest.mark.slow
def test_tensorboard_s_files_hold_the_curves(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("NBKIT_TRACKERS", "tensorboard")
    with pytest.raises(Preempted):
        main(Config(run_folder=str(tmp_path), stop_at=4, save_every=0))
    main(Config(run_folder=str(tmp_path), save_every=0))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [point.step for point in events.Scalars("loss")] == list(range(1, 9))


def test_weights_and_biases_is_used_if_asked_for(tmp_path, monkeypatch):
    calls, ids = [], []
    run = SimpleNamespace(
        log=lambda row, step: calls.append((step, sorted(row))), finish=lambda: calls.append("end")
    )
    keys = ("project", "name")
    fake = SimpleNamespace(
        init=lambda **given: (
            ids.append(given["id"]) or calls.append([given[k] for k in keys]) or run
        )
    )
    fake.__spec__ = SimpleNamespace(name="wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("NBKIT_TRACKERS", "wandb")
    main(Config(run_folder=str(tmp_path / "job" / "label"), steps=1))
    assert calls == [[None, "job-label"], (1, ["loss", "seconds", "seconds/step"]), "end"]
    # Two jobs, each with the label and the stage that are usual; the first is stopped and resumes.
    for job in ("one", "other"):
        (tmp_path / job / "default").mkdir(parents=True)
        (tmp_path / job / "default" / "job.json").write_text(json.dumps({"job": job}))
        values = {"run_folder": str(tmp_path / job / "default"), "stage": "grpo"}
        with contextlib.suppress(Preempted):
            main(Config(**values, stop_at=2 if job == "one" else 0))
    main(Config(run_folder=str(tmp_path / "one" / "default"), stage="grpo"))
    assert [call for call in calls if isinstance(call, list)][1:] == [
        ["one", "one-default-grpo"],
        ["other", "other-default-grpo"],
        ["one", "one-default-grpo"],
    ]
    assert ids[1] == ids[3] and len(set(ids)) == 3
    monkeypatch.delitem(sys.modules, "wandb")
    with pytest.raises(ValueError, match="which is not installed: run `pip install wandb`"):
        main(Config(run_folder=str(tmp_path / "b")))
    monkeypatch.setenv("NBKIT_TRACKERS", "nonsense")
    with pytest.raises(ValueError, match="'nonsense' is unknown; known are tensorboard, wandb"):
        main(Config(run_folder=str(tmp_path / "c")))


@pytest.mark.usefixtures("values_unchecked")
def test_a_big_job_says_what_it_may_cost(make_job, capsys):
    folder = make_job(
        base=BIG, limits={"requeues": 1, "retries": 0, "price_per_gpu_hour": 3, "cost": 50}
    ).parent
    commands.submit(str(folder))
    first = capsys.readouterr().out.splitlines()[0]
    assert "2 x 8 GPUs, 00:05:00; 1 requeues, 0.166667 hours in all (2.66667 GPU hours" in first
    assert "8.00 USD" in first and JOB["time"] == "00:05:00"
