"""The rendered scripts under bash, with stand-ins for Python, srun and scontrol.

The stand-ins are small bash programs: what is tested here is order, signals, limits and exit
statuses. That a real torchrun and a real Slurm understand the scripts is tested elsewhere.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import REPOSITORY

pytestmark = pytest.mark.slow
# Takes the place of `python -m torch.distributed.run … train.py CONFIG`: does what its plan says.
PYTHON = """#!/usr/bin/env bash
if [[ $* == *' bookkit/jobs/preflight.py '* ]]; then
  printf '%s\\n' "$MASTER_PORT $*" >>"$NBKIT_RUN_FOLDER/preflights"
  [[ -e $PLAN/preflight ]] || exit 0
  echo node9 >"$NBKIT_RUN_FOLDER/bad_nodes"
  exit 1
fi
config=${!#}
stage=${config##*/config}; stage=${stage%.yaml}; stage=${stage#.}
folder=$NBKIT_RUN_FOLDER${stage:+/$stage}
mkdir -p "$folder"
printf '%s\\n' "$stage $MASTER_ADDR:$MASTER_PORT" >>"$NBKIT_RUN_FOLDER/calls"
printf '%s\\n' "$*" >>"$NBKIT_RUN_FOLDER/words"
printf '%s\\n' "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT" >"$NBKIT_RUN_FOLDER/grace"
read -r todo <"$PLAN/${stage:-all}" || todo=finish
case $todo in
  finish) echo finished >"$folder/state" ;;
  crash) echo failed >"$folder/state"; exit 3 ;;
  step) echo '{}' >>"$folder/metrics.jsonl"; echo failed >"$folder/state"; exit 3 ;;
  spend) # a step, and more time than the job may take
    echo '{}' >>"$folder/metrics.jsonl"
    echo '1 999' >"$NBKIT_RUN_FOLDER/attempts/9"
    exit 3
    ;;
  wait) # as the training script does: until it is asked to stop, then it saves
    echo running >"$folder/state"
    while [[ ! -e $NBKIT_RUN_FOLDER/STOP ]]; do sleep 0.05; done
    echo preempted >"$folder/state"
    echo finish >"$PLAN/${stage:-all}"
    ;;
  limit) echo preempted >"$folder/state" ;; # a limit of its own: nobody has asked
  dies) exit 3 ;; # before it has written anything
  stubborn) trap '' USR1; echo running >"$folder/state"; exec sleep 600 ;;
esac
"""
SRUN = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$NBKIT_RUN_FOLDER/srun"
while [[ $1 == --* ]]; do shift; done
[[ -n ${FAILING:-} ]] || exec "$@"
"$@" && exit
status=$?
printf '%s\\n' 'srun: error: slurm_receive_msgs: Socket timed out' \\
  "srun: error: $FAILING: task 1: Exited with exit code $status" \\
  'srun: error: node7: task 0: Terminated' >&2
exit $status
"""
SBATCH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"${!#}/sbatch"
[[ ! -e $PLAN/no_sbatch ]] || exit 1
echo 4712
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$*" >>"$NBKIT_RUN_FOLDER/scontrol"; exit; fi
for ((n = 7; n < ${NODES:-8}; n++)); do echo "node$n" || exit; done
"""


@pytest.fixture
def stage_set(make_job, tmp_path, monkeypatch):
    """Render a job whose Python is the stand-in; returns its launch folder."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "plan").mkdir()
    programs = {"venv/bin/python": PYTHON, "srun": SRUN, "scontrol": SCONTROL, "sbatch": SBATCH}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PLAN", str(tmp_path / "plan"))
    for name in ("MASTER_ADDR", "MASTER_PORT", "NBKIT_RUN_FOLDER", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NBKIT_CLOCK_SECONDS", "0.2")

    def make(**changes) -> Path:
        return make_job(venv=str(tmp_path / "venv"), **changes)

    return make


def plan(tmp_path: Path, **todo: str) -> None:
    for stage, what in todo.items():
        (tmp_path / "plan" / stage).write_text(what + "\n")


def start(script: Path, run: Path, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        ["bash", str(script), str(run)],
        cwd=REPOSITORY,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str]:
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


SLURM = {
    **{"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n", "SLURM_CPUS_PER_TASK": "2"},
    "SLURMD_NODENAME": "node7-ib",  # as srun sets it in each node's step
}


def as_slurm_job(launch: Path, run: Path, restarts: int = 0) -> subprocess.Popen:
    counted = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
    return start(launch / "slurm.sbatch", run, **SLURM, **counted)


def wait_for(condition, seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def running(folder: Path):
    return lambda: (folder / "state").exists() and "running" in (folder / "state").read_text()


STAGES = [{"name": "sft"}, {"name": "ppo"}]


def test_stages_run_in_order_and_finished_ones_are_left_out(stage_set, tmp_path):
    launch, run = stage_set(stages=STAGES), tmp_path / "run"
    plan(tmp_path, sft="finish", ppo="crash")
    code, output = finish(start(launch / "torchrun.sh", run))
    assert code == 3, output
    plan(tmp_path, ppo="finish")
    assert finish(start(launch / "torchrun.sh", run))[0] == 0
    assert (run / "calls").read_text().split() == ["sft", ":", "ppo", ":", "ppo", ":"]
    assert len(list((run / "attempts").iterdir())) == 2


def test_a_script_that_ends_well_without_finishing_is_a_failure(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="nothing")
    assert finish(start(launch / "torchrun.sh", run))[0] == 1


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_a_checkpoint_and_the_next_start_goes_on(stage_set, tmp_path, number):
    launch, run = stage_set(stages=STAGES), tmp_path / "run"
    plan(tmp_path, sft="wait", ppo="finish")
    process = start(launch / "torchrun.sh", run)
    wait_for(running(run / "sft"))
    process.send_signal(number)
    assert finish(process)[0] == 75
    assert (run / "sft" / "state").read_text() == "preempted\n"
    assert not (run / "ppo").exists()
    assert finish(start(launch / "torchrun.sh", run))[0] == 0
    assert (run / "ppo" / "state").read_text() == "finished\n"


def test_a_second_signal_does_not_wait(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="stubborn")
    process = start(launch / "torchrun.sh", run)
    wait_for(running(run))
    process.send_signal(signal.SIGTERM)
    wait_for((run / "STOP").exists)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 75


def test_touching_stop_ends_a_run_in_good_order(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="wait")
    process = as_slurm_job(launch, run)
    wait_for(running(run))
    (run / "STOP").touch()
    code, output = finish(process)
    assert code == 75 and "a STOP file" in output
    assert not (run / "scontrol").exists()


def at_its_time(launch: Path, run: Path, restarts: int) -> str:
    """One attempt that gets the signal of its time; what it printed."""
    plan(launch.parent.parent, all="wait")
    process = as_slurm_job(launch, run, restarts)
    wait_for(running(run))
    process.send_signal(signal.SIGUSR1)
    code, output = finish(process)
    assert code == 75, output
    (run / "state").unlink()
    return output


def requeues(run: Path) -> int:
    return len((run / "scontrol").read_text().splitlines())


def test_near_its_end_a_slurm_job_requeues_itself_so_often_and_no_more(stage_set, tmp_path):
    launch, run = stage_set(limits={"requeues": 2}), tmp_path / "run"
    for restarts, requeued in ((0, 1), (1, 2), (2, 2)):
        output = at_its_time(launch, run, restarts)
        assert requeues(run) == requeued
        assert ("limits.requeues (2) is reached" in output) == (restarts == 2)
    assert set((run / "scontrol").read_text().splitlines()) == {"requeue 4711"}
    assert (run / "requeues").read_text() == "4711 2\n"


def test_requeues_of_the_cluster_are_not_counted(stage_set, tmp_path):
    """Nodes fail five times: the job begins again each time, and still has its own requeue."""
    launch, run = stage_set(limits={"requeues": 1}), tmp_path / "run"
    at_its_time(launch, run, 5)
    assert requeues(run) == 1
    assert "limits.requeues (1) is reached" in at_its_time(launch, run, 9)
    assert requeues(run) == 1
    # Submitted anew, under another number, it has its own again; so after a count cut short.
    for count in ("4710 1\n", "4711", ""):
        (run / "requeues").write_text(count)
        at_its_time(launch, run, 0)
        assert (run / "requeues").read_text() == "4711 1\n"


def test_a_stop_file_from_before_the_start_is_obeyed_once(stage_set, tmp_path):
    """Someone touches it while the job waits in the queue."""
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="finish")
    run.mkdir()
    (run / "STOP").touch()
    code, output = finish(as_slurm_job(launch, run, 1))
    assert code == 75 and "STOP was there, so nothing is started" in output
    assert not (run / "calls").exists()
    assert finish(as_slurm_job(launch, run, 1))[0] == 0


def test_a_stop_file_of_a_killed_attempt_stops_nobody(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="wait")
    process = as_slurm_job(launch, run)
    wait_for(running(run))
    process.send_signal(signal.SIGUSR1)
    wait_for((run / "STOP").exists)
    process.kill()  # the node fails before the attempt has ended in good order
    process.communicate()
    wait_for(lambda: (run / "state").read_text() == "preempted\n")
    assert (run / "STOP").read_text() == "USR1\n"
    assert finish(as_slurm_job(launch, run, 1))[0] == 0


def test_a_person_s_stop_file_is_stronger_than_the_end_of_the_time(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="stubborn")
    process = as_slurm_job(launch, run)
    wait_for(running(run))
    (run / "STOP").touch()
    while process.poll() is None:  # the stand-in does not look at the file; a second one ends it
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
    code, output = finish(process)
    assert code == 75 and "a STOP file" in output
    assert not (run / "scontrol").exists() and not (run / "STOP").exists()


def test_a_run_that_stops_itself_is_resumable_and_not_requeued(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="limit")
    code, output = finish(as_slurm_job(launch, run))
    assert code == 75 and "stopped (its own limit); it is resumable" in output
    assert not (run / "scontrol").exists()
    plan(tmp_path, all="dies")  # the word of the earlier attempt still stands there
    assert finish(as_slurm_job(launch, run))[0] == 3
    plan(tmp_path, all="finish")
    assert finish(as_slurm_job(launch, run))[0] == 0


def test_the_cluster_s_own_signal_is_not_answered_by_a_requeue(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="wait")
    process = as_slurm_job(launch, run)
    wait_for(running(run))
    process.send_signal(signal.SIGTERM)
    code, output = finish(process)
    assert code == 75 and "stopped (TERM)" in output
    assert not (run / "scontrol").exists()


def test_a_crash_before_the_first_step_is_not_tried_again(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="crash")
    code, output = finish(as_slurm_job(launch, run))
    assert code == 3 and "has come no further than before (0 steps)" in output
    assert not (run / "scontrol").exists() and not (run / "sbatch").exists()


def test_srun_starts_one_launcher_a_node_with_one_address(stage_set, tmp_path):
    launch, run = stage_set(processes=None, gpus=4, nodes=3, time="01:00:00"), tmp_path / "run"
    plan(tmp_path, all="finish")
    assert finish(as_slurm_job(launch, run))[0] == 0
    assert (run / "calls").read_text().split() == [f"node7:{10000 + 4711}"]
    words = (run / "words").read_text()
    assert f"--rdzv-endpoint=node7:{10000 + 4711} --local-addr=node7-ib" in words
    assert (
        "--nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=2" in (run / "srun").read_text()
    )


def test_the_names_of_many_nodes_break_no_pipe(stage_set, tmp_path):
    """More of them than a pipe holds: whoever reads the first alone leaves scontrol writing."""
    launch, run = stage_set(processes=None, gpus=4, nodes=3, time="01:00:00"), tmp_path / "run"
    plan(tmp_path, all="finish")
    code, output = finish(start(launch / "slurm.sbatch", run, **SLURM, NODES="12000"))
    assert code == 0, output
    assert f"rendezvous at node7:{10000 + 4711}" in output


def test_torchrun_waits_for_a_checkpoint_as_long_as_slurm_does(stage_set, tmp_path):
    launch, run = stage_set(signal_seconds=77), tmp_path / "run"
    (tmp_path / "plan" / "all").write_text("finish\n")
    assert finish(start(launch / "torchrun.sh", run))[0] == 0
    assert (run / "grace").read_text() == "77\n"


def test_the_budget_ends_a_run_and_does_not_let_it_begin_again(stage_set, tmp_path):
    """3 s in all, 1 s of them for the checkpoint."""
    launch, run = stage_set(limits={"hours": 3.01 / 3600}, signal_seconds=1), tmp_path / "run"
    plan(tmp_path, all="wait")
    began = time.monotonic()
    code, output = finish(as_slurm_job(launch, run))
    assert code == 75 and "stopped (budget)" in output
    assert 1.0 < time.monotonic() - began < 100.0
    assert not (run / "scontrol").exists()
    spent = run / "attempts" / "0"
    spent.write_text("100 103\n")
    code, output = finish(as_slurm_job(launch, run))
    assert code == 1 and "limits allow 3 s for all attempts and" in output


def test_a_note_of_its_time_is_whole_however_the_programs_beside_it_end(stage_set, tmp_path):
    """At a job's end Slurm kills everything that runs in it, also what a shell waits for."""
    (tmp_path / "date").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "date").chmod(0o755)
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="finish")
    code, output = finish(start(launch / "torchrun.sh", run))
    assert code == 0, output
    (note,) = (run / "attempts").iterdir()
    first, last = (int(word) for word in note.read_text().split())
    assert 0 <= time.time() - last < 600 and first <= last


def test_the_clock_of_a_killed_attempt_stops(stage_set, tmp_path):
    launch, run = stage_set(), tmp_path / "run"
    plan(tmp_path, all="wait")
    process = start(launch / "torchrun.sh", run)
    wait_for(running(run))
    process.kill()
    process.wait()
    (run / "STOP").touch()  # for the stage, which nobody has told
    process.communicate()  # until the last process that writes there has ended
    (note,) = (run / "attempts").glob("[!.]*")
    before = note.read_text()
    time.sleep(1.5)
    assert note.read_text() == before


def test_several_nodes_need_slurm(stage_set, tmp_path):
    launch = stage_set(processes=None, gpus=4, nodes=3, time="01:00:00")
    code, output = finish(start(launch / "torchrun.sh", tmp_path / "run"))
    assert code == 2 and "submit slurm.sbatch" in output
