"""`--set` and sweeps: what replaces what, what is refused, and what Slurm gets."""

import json
import subprocess

import pytest
import yaml

from bookkit.jobs import commands
from bookkit.jobs.job_file import JobError, load_job
from bookkit.jobs.render import render
from bookkit.jobs.settings import label_of, parse, products
from bookkit.jobs.sweep import make_sweep, prepare_members
from nbkit.errors import UserError

from .conftest import REPOSITORY

STAGES = [{"name": "sft"}, {"name": "ppo", "arguments": {"steps": 5}}]


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr("bookkit.jobs.judge.VALIDATE", "")


def values(folder, *settings, **given):
    files = render(folder, REPOSITORY, settings=settings, **given)
    return {f.path.name: yaml.safe_load(f.text) for f in files if f.path.name[:7] == "config."}


def test_a_setting_replaces_a_field_of_the_job_of_config_or_of_a_stage(make_job):
    launch = make_job(stages=STAGES, arguments={"steps": 3}, variants={"v": {"processes": 3}})
    folder = launch.parent
    found = values(folder, "seed=7", "ppo.steps=9", "learning_rate=1e-3")
    assert found["config.sft.yaml"] == {
        **{"stage": "sft", "backend": "ddp", "steps": 3},
        **{"seed": 7, "learning_rate": 0.001},
    }
    assert found["config.ppo.yaml"]["steps"] == 9
    job = load_job(folder / "job.yaml", settings=["limits.requeues=0", "slurm.qos=low"])
    assert (job.limits.requeues, job.slurm.qos, job.processes) == (0, "low", 2)
    assert load_job(folder / "job.yaml", variant="v", settings=["processes=4"]).processes == 4
    assert load_job(folder / "job.yaml", settings=["modules=[a, b]"]).modules == ("a", "b")
    assert load_job(folder / "job.yaml").arguments == {"steps": 3}  # the file is as it was


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("seed", "--set seed: write key=value"),
        ("a b=1", "--set a b=1: write key=value"),
        ("seed=[1", "--set seed=.1: the value is not YAML"),
        ("gpuss=[1]", "--set gpuss=.1.: arguments.gpuss: Config in train.py has no field 'gpuss'"),
        ("backend=zero4", "--set backend=zero4: backend: 'zero4' is not allowed"),
        ("rl.steps=3", "--set rl.steps: 'rl' is no field of job.yaml and no stage .there are: sft"),
        ("backend.x=1", "--set backend.x: backend holds no values"),
        ("limits.requeue=1", "--set limits.requeue=1: limits.requeue: there is no such field"),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_given(make_job, word, says):
    folder = make_job(stages=STAGES).parent
    with pytest.raises(JobError, match=says):
        load_job(folder / "job.yaml", script=folder / "train.py", settings=[word])
    with pytest.raises(JobError, match="seed is given twice"):
        parse(["seed=1", "seed=2"])


def test_what_config_refuses_is_named_by_the_setting(make_job, tmp_path, monkeypatch):
    folder = make_job().parent
    monkeypatch.undo()
    monkeypatch.chdir(REPOSITORY)
    with pytest.raises(UserError, match=r"^--set steps=many: Config refuses 'many'"):
        commands.submit(str(folder), settings=["steps=many"], run=tmp_path / "run")


def test_every_value_meets_every_other_and_commas_in_brackets_do_not_part():
    found = list(products(["seed=1,2", "rate=1e-6", 'list=[1, 2],[3],"a,b"']))
    assert len(found) == 6 and found[0] == ["seed=1", "rate=1e-6", "list=[1, 2]"]
    assert found[2][2] == 'list="a,b"'
    assert label_of(["seed=1", "learning_rate=1e-6"]) == "seed=1_learning_rate=1e-6"
    assert label_of(["note=a/../b c%"]) == "note=a-..-b-c-"


def test_a_submission_is_named_by_its_settings_and_notes_them(make_job, capsys, tmp_path):
    folder = make_job().parent
    commands.submit(str(folder), settings=["seed=3"])
    assert "runs/tiny/seed=3" in capsys.readouterr().out
    files = render(folder, REPOSITORY, settings=["seed=3"], to=tmp_path / "launch")
    text = next(f.text for f in files if f.path.name == "torchrun.sh")
    assert '"settings": ["seed=3"]' in text


SBATCH = """#!/bin/bash
printf '%s\\n' "$@" >"$FOLDER/got"
for number in 0 1 2 3; do
  SLURM_ARRAY_TASK_ID=$number bash "${!#}" 2>&1 || exit
done
"""


def test_a_sweep_is_one_array_in_which_each_run_has_its_own_folder(
    make_job, tmp_path, monkeypatch, capsys
):
    """The array's script, for each number of Slurm's, starts that run's own scripts."""
    folder = make_job().parent
    monkeypatch.setattr("bookkit.jobs.sweep_command.find_root", lambda: REPOSITORY)
    base, binaries = tmp_path / "sweep", tmp_path / "bin"
    binaries.mkdir()
    (binaries / "sbatch").write_text(SBATCH)
    (binaries / "sbatch").chmod(0o755)
    made = make_sweep(
        folder, REPOSITORY, ["seed=1,2", "learning_rate=0.1,0.2"], base=base, at_most=2
    )
    prepare_members(made)
    command = made.array.command
    assert command[-2:] == ("--array=0-3%2", str(base / "sweep.sbatch"))
    assert command[3] == f"--output={base}/logs/slurm-%A_%a.out"
    names = [member.run.name for member in made.members]
    assert names[1] == "seed=1_learning_rate=0.2"
    own = yaml.safe_load((made.members[1].run / "launch" / "config.yaml").read_text())
    assert (own["seed"], own["learning_rate"]) == (1, 0.2)
    # Each member's script is replaced by one that says who was started.
    says = '#!/bin/bash\nprintf "%s %s\\n" "$NBKIT_LAUNCH" "$1" >>"$FOLDER/started"\n'
    for member in made.members:
        (member.run / "launch" / "slurm.sbatch").write_text(says)
    made.array.files[0].path.write_text(made.array.files[0].text)
    environment = {"PATH": f"{binaries}:/usr/bin:/bin", "FOLDER": str(tmp_path)}
    subprocess.run(command, env=environment, cwd=REPOSITORY, check=True)
    started = [line.split() for line in (tmp_path / "started").read_text().splitlines()]
    assert started == [[member.digest, str(member.run)] for member in made.members]
    assert len({member.digest for member in made.members}) == 4
    text = made.array.files[0].text
    assert "#SBATCH --signal=B:USR1@60" in text and len(text.splitlines()) < 60


def test_finished_runs_of_a_sweep_are_left_out(make_job, tmp_path):
    folder = make_job().parent
    base = tmp_path / "sweep"
    done = base / "seed=1"
    done.mkdir(parents=True)
    (done / "job.json").write_text(json.dumps({"job": "tiny", "stages": [""]}))
    (done / "state").write_text("finished\n")
    made = make_sweep(folder, REPOSITORY, ["seed=1,2,3"], base=base)
    assert made.finished == 1 and len(made.members) == 2
    assert made.array.command[-2] == "--array=0-1"
    for name in ("seed=2", "seed=3"):
        (base / name).mkdir()
        (base / name / "job.json").write_text(json.dumps({"job": "tiny", "stages": [""]}))
        (base / name / "state").write_text("finished\n")
    with pytest.raises(JobError, match=r"all 3 runs of the sweep below .* have finished"):
        make_sweep(folder, REPOSITORY, ["seed=1,2,3"], base=base)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["processes=2,4"], "processes=4: it asks Slurm for other resources than the first"),
        (["seed=1,1"], "two runs of the sweep would have one name"),
        ([], "give --set key=value"),
        ([f"seed={','.join(map(str, range(1001)))}"], "a sweep of 1001 runs"),
        (["seed"], "write key=value,value"),
    ],
)
def test_what_is_no_sweep_is_refused(make_job, tmp_path, words, says):
    with pytest.raises(JobError, match=says):
        make_sweep(make_job().parent, REPOSITORY, words, base=tmp_path)
