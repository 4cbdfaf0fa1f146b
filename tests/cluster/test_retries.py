# ruff: noqa: F811
"""A job that crashed is started again without the node that failed; GPUs are tried beforehand.

Slurm and Python are the stand-ins of test_launch.
"""

import subprocess

import pytest

from .test_launch import SLURM, finish, plan, stage_set, start  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow
NODES = {"processes": None, "gpus": 4, "nodes": 3, "time": "01:00:00"}


def attempt(launch, run, number="4711", failing="node8", **variables):
    """One job of three nodes, one of which is named by srun if it fails."""
    given = SLURM | {"SLURM_JOB_ID": number, "FAILING": failing, "NODES": "10"} | variables
    return finish(start(launch / "slurm.sbatch", run, **given))


def submissions(run):
    path = run / "sbatch"
    return path.read_text().splitlines() if path.exists() else []


def test_a_crash_is_tried_again_without_the_node_that_failed(stage_set, tmp_path):
    changes = NODES | {"limits": {"retries": 2}, "slurm": {"exclude": "node1"}}
    launch, run = stage_set(**changes), tmp_path / "run"
    plan(tmp_path, all="step")
    code, output = attempt(launch, run)
    assert code == 3 and "it failed; job 4712 goes on without node1,node8" in output
    (first,) = submissions(run)
    assert "--dependency=afterany:4711 --exclude=node1,node8 --chdir=" in first
    assert first.endswith(f"{launch}/slurm.sbatch {run}")
    code, output = attempt(launch, run, "4712", "node9")  # another step further: another node
    assert "--exclude=node1,node1,node8,node9" in submissions(run)[1]
    code, output = attempt(launch, run, "4712")
    assert code == 3 and "limits.retries (2) is reached" in output and len(submissions(run)) == 2
    # A person submits it again: it has its own retries.
    attempt(launch, run, "5000")
    assert len(submissions(run)) == 3


def test_a_crash_at_the_same_step_is_the_program_s(stage_set, tmp_path):
    launch, run = stage_set(**NODES), tmp_path / "run"
    plan(tmp_path, all="step")
    attempt(launch, run)
    plan(tmp_path, all="crash")  # no step more
    _, output = attempt(launch, run, "4712")
    assert "has come no further than before (1 steps)" in output and len(submissions(run)) == 1


def test_what_srun_says_of_other_things_excludes_nobody(stage_set, tmp_path):
    launch, run = stage_set(**NODES), tmp_path / "run"
    plan(tmp_path, all="step")
    attempt(launch, run, failing="node[8-9]")
    assert "--exclude=node7" in submissions(run)[0]  # the first line that names one node of the job
    (run / "retries").unlink()
    attempt(launch, run, failing="node8: task 1: Terminated\nsrun: error: Node failure on node9\nx")
    assert "--exclude=node9" in submissions(run)[1]  # not the one that missed it


def test_retries_end_where_the_money_ends_and_where_none_are_wanted(stage_set, tmp_path):
    launch, run = stage_set(**NODES, limits={"retries": 0}), tmp_path / "run"
    plan(tmp_path, all="step")
    assert "limits.retries (0) is reached" in attempt(launch, run)[1]
    launch = stage_set(name="poor", **NODES, limits={"hours": 0.05}, signal_seconds=60)
    (run / "metrics.jsonl").unlink()
    plan(tmp_path, all="spend")
    assert "the limit of 180 s for all attempts is reached" in attempt(launch, run)[1]
    assert not submissions(run)


def test_where_nodes_may_not_submit_a_person_is_told(stage_set, tmp_path):
    launch, run = stage_set(**NODES), tmp_path / "run"
    plan(tmp_path, all="step", no_sbatch="")
    code, output = attempt(launch, run)
    assert code == 3 and "could not be submitted from here; submit it again" in output
    assert not (run / "retries").exists()


def test_a_preflight_that_fails_names_the_node_and_costs_no_step(stage_set, tmp_path):
    launch, run = stage_set(**NODES), tmp_path / "run"
    plan(tmp_path, preflight="bad")
    code, output = attempt(launch, run)
    assert code == 1 and "job 4712 goes on without node9" in output
    assert not (run / "calls").exists()
    (tmp_path / "plan" / "preflight").unlink()
    assert attempt(launch, run, "4712")[0] == 0
    assert not (run / "bad_nodes").exists()
    first, second = (run / "preflights").read_text().splitlines()
    port, words = first.split(" ", 1)
    assert int(port) != 10000 + 4711 and f"node7:{port}" in words
    assert "--rdzv-id=4711-0-preflight" in words and "--rdzv-id=4712-0-preflight" in second


def test_each_attempt_tries_its_gpus_once_and_where_it_is_wanted(stage_set, tmp_path):
    stages = [{"name": "sft"}, {"name": "ppo"}]
    for name, times, changes in (
        ("cpu", 0, {}),
        ("asked", 1, {"preflight": True}),
        ("gpu", 1, {"processes": None, "gpus": 2}),
        ("off", 0, {"processes": None, "gpus": 2, "preflight": False}),
    ):
        run = tmp_path / f"run_{name}"
        launch = stage_set(name=name, stages=stages, **changes)
        assert finish(start(launch / "torchrun.sh", run))[0] == 0
        seen = (run / "preflights").read_text().splitlines() if times else []
        assert len(seen) == times and (run / "preflights").exists() == bool(times)
        assert (run / "calls").read_text().split()[::2] == ["sft", "ppo"]


SHOWN = (
    *("NCCL_DEBUG", "PYTHONFAULTHANDLER", "TORCH_FR_BUFFER_SIZE"),
    *("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_TEMP_FILE"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
)


def test_what_is_needed_to_look_into_a_death_is_set_and_a_person_s_word_is_kept(
    stage_set, tmp_path
):
    launch, run = stage_set(environment={"NCCL_DEBUG": "INFO"}), tmp_path / "run"
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text('#!/bin/sh\nenv >"$NBKIT_RUN_FOLDER/env"\n' + "exit 0\n")
    start(launch / "torchrun.sh", run, PYTORCH_ALLOC_CONF="backend:native").wait()
    told = dict(
        line.split("=", 1) for line in (run / "env").read_text().splitlines() if "=" in line
    )
    records = f"{run}/logs/flight_recorder/rank_"
    assert [told[name] for name in SHOWN] == [
        *("INFO", "1", "2000", "1", records),
        *("backend:native", "backend:native"),
    ]
    assert (run / "logs" / "flight_recorder").is_dir()


def test_the_allocator_has_one_setting_in_every_job():
    """The benchmark's too: figures that it gives are of the memory that jobs have."""
    script = "source nbkit/cluster/driver/diagnosis.sh; run=/x; export_allocator; env"
    told = subprocess.run(
        ["env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", script], capture_output=True, text=True
    ).stdout.splitlines()
    from benchmarks.scaling import ALLOCATOR

    assert {f"{name}={ALLOCATOR}" for name in SHOWN[-2:]} <= set(told)
