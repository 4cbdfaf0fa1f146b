"""What job.yaml becomes: complete, tidy for shellcheck, and never edited by hand unnoticed."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
import yaml

from bookkit.jobs.commands import job_folders
from bookkit.jobs.job_file import JobError, variant_names
from bookkit.jobs.render import check, render, render_kept, write
from nbkit.parallel import ParallelConfig, zero

from .conftest import BIG, DRIVER, JOB, REPOSITORY, render_job, with_extras

STAGES = [{"name": "sft"}, {"name": "ppo", "arguments": {"steps": 5}}]
SHAPES = {
    "one_process": {"backend": "single", "processes": 1},
    "two_processes": {},
    "stages": {"stages": STAGES, "arguments": {"steps": 3}},
    "nodes": {"base": BIG},
    "fsdp2": {"base": BIG, "backend": "fsdp2"},
    "offload_one_node": {"base": BIG, "backend": "zero2-offload", "nodes": 1},
    "apptainer": {"base": BIG, "container": {"image": "a b.sif", "binds": ["/data:/data"]}},
    "pyxis": {
        "base": BIG,
        "container": {"image": "x", "runtime": "pyxis", "binds": ["/d:/d"]},
    },
    "everything": {
        "base": BIG,
        "slurm": {
            **{"partition": "gpu", "account": "a", "qos": "q", "constraint": "h100&nvlink"},
            **{"reservation": "r", "memory": "900G", "exclusive": True, "cpus_per_process": 12},
            **{"gres": "gpu:h100:8", "exclude": "node[1-3],node7"},
            "mail": {"to": "me@here.org", "on": ["END", "TIME_LIMIT_80"]},
            "options": {"nodelist": "node[4-6]", "spread-job": True, "nice": 100},
        },
        "limits": {"requeues": 5, "price_per_gpu_hour": 2.5, "cost": 200},
        "modules": ["cuda/12.8"],
        "environment": {"HF_HOME": "/scratch/it's here/$x"},
        "offline": True,
        "trackers": ["tensorboard", "wandb"],
        "stages": STAGES,
    },
}


@pytest.mark.slow
def test_scripts_pass_shellcheck(make_job):
    if shutil.which("shellcheck") is None:
        if os.environ.get("NBKIT_REQUIRE_SLURM") == "1":
            pytest.fail("shellcheck is not installed; CI must have it")
        pytest.skip("shellcheck is not installed here")
    scripts = [REPOSITORY / ".ci" / "slurm", REPOSITORY / ".ci" / "run", *DRIVER.iterdir()]
    for shape, changes in SHAPES.items():
        launch = make_job(shape, **changes)
        scripts += [*launch.glob("*.sh"), launch / "slurm.sbatch"]
    for folder in job_folders(REPOSITORY):  # those of the book, without their variants
        scripts += [*(folder / "launch").glob("*.s[hb]*")]
    done = subprocess.run(
        ["shellcheck", "--external-sources", *scripts],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


GOLDEN = REPOSITORY / "tests" / "cluster" / "golden"
MOST_LINES = 60


@pytest.mark.parametrize("name", ["torchrun.sh", "deepspeed.sh", "slurm.sbatch", "config.sft.yaml"])
def test_a_template_gives_what_it_gave(name):
    """Letter by letter; golden/job.yaml says what to do after a wanted change."""
    files = {file.path.name: file for file in render(GOLDEN, REPOSITORY)}
    assert (GOLDEN / "launch" / name).read_text() == files[name].text


def test_scripts_are_short_enough_to_be_read(make_job):
    kept = [GOLDEN, *job_folders(REPOSITORY)]
    jobs = [(f, variant) for f in kept for variant in ("", *variant_names(f / "job.yaml"))]
    jobs += [(make_job(shape, **changes).parent, "") for shape, changes in SHAPES.items()]
    for folder, variant in jobs:
        for file in render(folder, REPOSITORY, variant=variant):
            if file.path.suffix in (".sh", ".sbatch"):
                lines = len(file.text.splitlines())
                assert lines <= MOST_LINES, f"{file.path} of {variant!r} has {lines} lines"


def test_slurm_file_asks_for_what_the_job_says(make_job):
    text = (make_job(**SHAPES["everything"]) / "slurm.sbatch").read_text()
    directives = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert directives == [
        "#SBATCH --job-name=tiny",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --cpus-per-task=96",
        "#SBATCH --time=00:05:00",
        "#SBATCH --signal=B:USR1@60",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --mem=900G",
        "#SBATCH --partition=gpu",
        "#SBATCH --account=a",
        "#SBATCH --qos=q",
        "#SBATCH --constraint=h100&nvlink",
        "#SBATCH --reservation=r",
        "#SBATCH --gres=gpu:h100:8",
        "#SBATCH --exclude=node[1-3],node7",
        "#SBATCH --mail-user=me@here.org",
        "#SBATCH --mail-type=END,TIME_LIMIT_80",
        "#SBATCH --exclusive",
        "#SBATCH --nodelist=node[4-6]",
        "#SBATCH --spread-job",
        "#SBATCH --nice=100",
    ]
    # All directives stand before the first command, or Slurm does not read them.
    assert text.index("#SBATCH --exclusive") < text.index("set -euo pipefail")
    assert "0.666667 hours in all (10.6667 GPU hours, 26.67 USD)" in text


def test_training_script_gets_its_values_a_file_a_stage(make_job):
    launch = make_job(**SHAPES["stages"])
    values = yaml.safe_load((launch / "config.ppo.yaml").read_text())
    assert values == {"stage": "ppo", "backend": "ddp", "steps": 5}
    assert yaml.safe_load((launch / "config.sft.yaml").read_text())["steps"] == 3
    assert not (launch / "config.yaml").exists()


@pytest.mark.parametrize(
    ("backend", "stage", "optimiser", "parameters"),
    [
        ("zero1", 1, None, None),
        ("zero2-offload", 2, "cpu", None),
        ("zero3", 3, None, None),
        ("zero3-offload", 3, "cpu", "cpu"),
    ],
)
def test_deepspeed_settings(make_job, backend, stage, optimiser, parameters):
    launch = with_extras(make_job(base=BIG, backend=backend))
    settings = json.loads((launch / "ds_config.json").read_text())
    zero = settings["zero_optimization"]
    assert zero["stage"] == stage
    assert zero.get("offload_optimizer", {}).get("device") == optimiser
    assert zero.get("offload_param", {}).get("device") == parameters
    accelerate = yaml.safe_load((launch / "accelerate.yaml").read_text())
    assert accelerate["distributed_type"] == "DEEPSPEED"
    assert accelerate["deepspeed_config"]["zero3_init_flag"] == (stage == 3)
    assert accelerate["deepspeed_config"]["zero_stage"] == stage
    assert accelerate["deepspeed_config"]["offload_optimizer_device"] == (optimiser or "none")
    assert accelerate["deepspeed_config"]["offload_param_device"] == (parameters or "none")
    assert accelerate["num_processes"] == 16


def spread_job(folder, base, **changes):
    """A job whose script has the fields for how it is spread."""
    folder.mkdir(exist_ok=True)
    fields = ("stage", "backend", "precision", "micro_batch", "accumulation", "gradient_clipping")
    lines = [f"    {name}: str = ''\n" for name in (*fields, "checkpointing")]
    (folder / "script.py").write_text("class Config:\n" + "".join(lines))
    return with_extras(render_job(folder / "tiny", base | changes, folder / "script.py"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("base", [JOB, BIG], ids=["processors", "gpus"])
@pytest.mark.parametrize("backend", ["zero1", "zero2-offload", "zero3", "zero3-offload"])
def test_deepspeed_s_file_is_what_the_run_tells_it(tmp_path, monkeypatch, base, backend, precision):
    """The file against the very call of the back-end, on a machine with the job's GPUs."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: base is not BIG)  # must not matter
    launch = spread_job(tmp_path, base, backend=backend, precision=precision, micro_batch=4)
    written = json.loads((launch / "ds_config.json").read_text())
    monkeypatch.setattr("torch.cuda.is_available", lambda: base is BIG)
    told = {}

    def initialize(*, config, **rest):
        told.update(config)
        raise StopIteration

    monkeypatch.setattr(zero, "ready", lambda device: SimpleNamespace(initialize=initialize))
    fake = SimpleNamespace(
        config=ParallelConfig(backend=backend, precision=precision),
        world=SimpleNamespace(device=None),
    )
    with pytest.raises(StopIteration):
        zero.Zero._wrap(fake, torch.nn.Linear(1, 1), lambda parameters: None)
    assert written == told
    assert "NBKIT_DS_CONFIG" not in (launch / "torchrun.sh").read_text()


def test_accelerate_s_file_follows_the_job(tmp_path):
    def fsdp(name, **changes):
        launch = spread_job(tmp_path / name, BIG, backend="fsdp2", **changes)
        return yaml.safe_load((launch / "accelerate.yaml").read_text())["fsdp_config"]

    def checkpoints(name, **changes):
        return fsdp(name, **changes)["fsdp_activation_checkpointing"]

    assert checkpoints("a") is False
    assert checkpoints("b", arguments={"checkpointing": "none"}) is False
    assert checkpoints("c", arguments={"checkpointing": "full"}) is True
    stages = [{"name": "sft"}, {"name": "ppo", "arguments": {"checkpointing": "selective"}}]
    assert checkpoints("d", stages=stages) is True
    changes = {"accumulation": 4, "gradient_clipping": 0.5, "precision": "bfloat16"}
    launch = spread_job(tmp_path, BIG, **changes)
    text = (launch / "accelerate.yaml").read_text()
    assert "train.py spreads its model itself (nbkit.parallel) and does not read this" in text
    settings = yaml.safe_load(text)
    assert settings["mixed_precision"] == "bf16"
    assert settings["deepspeed_config"]["gradient_accumulation_steps"] == 4
    assert settings["deepspeed_config"]["gradient_clipping"] == 0.5


def test_files_of_deepspeed_only_where_it_is_used(make_job):
    names = {path.name for path in make_job().iterdir()}
    assert names == {"torchrun.sh", "slurm.sbatch", "config.yaml"}
    names = {path.name for path in make_job("big", base=BIG).iterdir()}
    assert names == {"torchrun.sh", "deepspeed.sh", "slurm.sbatch", "config.yaml"}


def test_variants_are_rendered_where_they_are_wanted_and_not_kept(make_job, tmp_path):
    launch = make_job(variants={"h100": {"gpus": 8, "processes": None}})
    assert "--nproc-per-node=2" in (launch / "torchrun.sh").read_text()
    assert not any(path.is_dir() for path in launch.iterdir())
    to = tmp_path / "run" / "launch"
    files = render(launch.parent, REPOSITORY, variant="h100", to=to)
    assert {file.path.parent for file in files} == {to}
    assert "--nproc-per-node=8" in next(f.text for f in files if f.path.name == "torchrun.sh")


def test_what_is_not_current_is_named(make_job):
    folder = make_job().parent

    def findings() -> list[str]:
        found = check(folder, render_kept(folder, REPOSITORY))
        return [line.replace(f"{folder}/", "") for line in found]

    assert findings() == []
    script = folder / "launch" / "torchrun.sh"
    text = script.read_text()
    script.write_text(text.replace("--nnodes=1", "--nnodes=4"))
    assert findings() == [
        "launch/torchrun.sh: was edited by hand; it is generated: take the edit into job.yaml"
    ]
    with pytest.raises(JobError, match=r"torchrun.sh was edited by hand"):
        [write(file) for file in render_kept(folder, REPOSITORY)]
    script.write_text(text)
    (folder / "launch" / "old.sh").touch()
    (folder / "launch" / "config.yaml").unlink()
    job = folder / "job.yaml"
    job.write_text(job.read_text().replace("00:05:00", "00:06:00"))
    assert findings() == [
        "launch/slurm.sbatch: is not what job.yaml gives now; run `nbkit job render`",
        "launch/config.yaml: does not exist; run `nbkit job render`",
        "launch/old.sh: job.yaml gives no such file; delete it",
    ]
    assert [write(file) for file in render_kept(folder, REPOSITORY)].count(True) == 2
    (folder / "train.py").unlink()
    assert "train.py: does not exist" in findings()[-1]


def test_a_name_that_no_script_should_hold(make_job):
    with pytest.raises(JobError, match="a job's folder is named in small letters"):
        make_job("a;b")
    with pytest.raises(JobError, match="variant 'A B': name it"):
        make_job(variants={"A B": {}})


def test_the_budget_must_leave_time_for_an_attempt(make_job):
    with pytest.raises(JobError, match="they allow 36 s in all"):
        make_job(limits={"hours": 0.01})
    assert JOB["signal_seconds"] > 36


@pytest.mark.slow
def test_accelerate_and_deepspeed_accept_their_files(make_job):
    """Their own parsers read them; DeepSpeed's checks every key that it knows."""
    launch = with_extras(make_job(base=BIG, nodes=1, gpus=1, backend="zero3-offload"))
    script = (
        "import json, sys\n"
        "from deepspeed.runtime.config import DeepSpeedConfig\n"
        "from accelerate.commands.config.config_args import load_config_from_file\n"
        "settings = DeepSpeedConfig(json.load(open(sys.argv[1])))\n"
        "assert settings.zero_optimization_stage == 3\n"
        "assert settings.zero_config.offload_optimizer.device == 'cpu'\n"
        "from accelerate.commands.launch import launch_command_parser\n"
        "known = vars(launch_command_parser().parse_args(['train.py']))\n"
        "for name in sys.argv[2:]:\n"
        "    given = load_config_from_file(name)\n"
        "    for key in {**given.deepspeed_config, **given.fsdp_config}:\n"
        "        assert key in known, key\n"
        "    print(given.distributed_type)\n"
    )
    sharded = with_extras(make_job("sharded", base=BIG, nodes=1, backend="fsdp2"))
    files = [launch / "ds_config.json", launch / "accelerate.yaml", sharded / "accelerate.yaml"]
    done = subprocess.run(
        [sys.executable, "-c", script, *files],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    assert "DEEPSPEED" in done.stdout and "FSDP" in done.stdout


@pytest.mark.parametrize(("cores", "threads"), [(32, "16"), (5, "2"), (1, "1")])
def test_offloaded_adam_gets_the_cores(make_job, tmp_path, cores, threads):
    """Each of the two processes steps its part on half of them; what the user has set stays."""
    launch = make_job(base=BIG, backend="zero3-offload", gpus=2, nodes=1)
    lines = (launch / "torchrun.sh").read_text().splitlines()
    first = lines.index("cores=$(nproc)")
    program = f"nproc() {{ echo {cores}; }}\n" + "\n".join(lines[first : first + 2])
    program += '\necho "$OMP_NUM_THREADS"'

    def told(**variables: str) -> str:
        environment = {"PATH": os.environ["PATH"], **variables}
        return subprocess.run(
            ["bash", "-euc", program], capture_output=True, text=True, env=environment, check=True
        ).stdout.strip()

    assert told() == threads
    assert told(OMP_NUM_THREADS="3") == "3"
    plain = make_job("plain", base=BIG, backend="zero3", gpus=2, nodes=1) / "torchrun.sh"
    assert '"${OMP_NUM_THREADS:-1}"' in plain.read_text()
