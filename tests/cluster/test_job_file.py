"""A wrong job.yaml is answered with file, line and allowed values; a right one is understood."""

from pathlib import Path

import pytest

from bookkit.jobs.job_file import JobError, load_job, where

from .conftest import TINY

GOOD = """\
description: One sentence.
algorithm: dpo
model: some/model
gpus: 8
nodes: 2
backend: zero3-offload
time: 1-12:30:00
arguments:
  learning_rate: 1e-6
  steps: 10
limits:
  requeues: 2
  price_per_gpu_hour: 2.5
  cost: 1000
stages:
  - name: sft
  - name: dpo
    arguments: {steps: 20}
variants:
  small: {gpus: 1, nodes: 1, backend: single, limits: {cost: 10}, arguments: {steps: 3}}
  wrong:
    gpus: many
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return path


def error(tmp_path: Path, text: str, **options) -> str:
    with pytest.raises(JobError) as raised:
        load_job(write(tmp_path, text), **options)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_a_good_file_is_understood(tmp_path):
    job = load_job(write(tmp_path, GOOD))
    assert job.time_seconds == 36 * 3600 + 30 * 60
    assert (job.world_size, job.processes_per_node, job.is_deepspeed) == (16, 8, True)
    assert job.budget_seconds == 1000 * 3600 / 2.5 / 16
    assert job.worst_case_seconds == job.budget_seconds < 3 * job.time_seconds
    assert job.values("dpo") == {
        **{"stage": "dpo", "model": "some/model", "backend": "zero3-offload"},
        **{"learning_rate": 1e-6, "steps": 20},
    }
    assert job.values("sft")["steps"] == 10


def test_a_variant_replaces_values_and_keeps_the_rest(tmp_path):
    job = load_job(write(tmp_path, GOOD), variant="small")
    assert (job.world_size, job.backend, job.arguments["steps"]) == (1, "single", 3)
    assert job.arguments["learning_rate"] == 1e-6
    assert (job.limits.cost, job.limits.requeues) == (10, 2)
    assert "there is no variant 'huge'; there are: small, wrong" in error(
        tmp_path, GOOD, variant="huge"
    )
    assert error(tmp_path, GOOD, variant="wrong").startswith("job.yaml:22: gpus: 'many'")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "zero3-offload",
            "zero4",
            "job.yaml:6: backend: 'zero4' is not allowed; the allowed values are 'single', 'ddp', "
            "'fsdp2', 'hsdp', 'zero1', 'zero2', 'zero3', 'zero1-offload', 'zero2-offload', "
            "'zero3-offload'",
        ),
        ("algorithm: dpo", "algorithm: magic", "job.yaml:2: algorithm: 'magic' is not allowed"),
        ("gpus: 8\n", "gpu: 8\n", "job.yaml:1: gpus: it is missing; give it"),
        ("gpus: 8\n", "gpus: 8\ngpu: 8\n", "job.yaml:5: gpu: there is no such field; did you mean"),
        ("gpus: 8", "gpus: 99", "job.yaml:4: gpus: 99: input should be less than or equal to 16"),
        ("gpus: 8", "gpus: true", "job.yaml:4: gpus: True: input should be a valid integer"),
        ("gpus: 8\n", "gpus: 8\ngpus: 4\n", "job.yaml:5: gpus is given twice"),
        ("1-12:30:00", "12 hours", "job.yaml:7: time: is no duration; write 'HH:MM:SS'"),
        ("1-12:30:00", "90", "job.yaml:7: time: 90: input should be a valid string"),
        ("cost: 1000", "cots: 1000", "job.yaml:14: limits.cots: there is no such field; did you"),
        ("  price_per_gpu_hour: 2.5\n", "", "job.yaml:11: limits.cost needs limits.price_per_gp"),
        ("name: dpo", "name: sft", "job.yaml:15: stages: two have one name"),
        ("name: dpo", "name: logs", "job.yaml:15: stages: 'logs' is a folder of every run"),
        ("name: dpo", "name: 'a b'", "job.yaml:17: stages.1.name: 'a b' is not allowed"),
        ("nodes: 2", "nodes: 2\nsignal_seconds: 0", "job.yaml:6: signal_seconds: 0: input should"),
        ("backend: zero3-offload", "backend: single", "'single' is for one process, and this job"),
        ("model: some/model", 'model: "a\\nb"', "job.yaml:3: model: holds a control character"),
        ("model: some/model", "model: --help", "job.yaml:3: model: '--help' begins with a dash"),
        ("nodes: 2", "nodes: 2\nmodules: ['a; b']", "job.yaml:6: modules.0: 'a; b' is not allowed"),
        ("nodes: 2", "nodes: 2\nenvironment: {BASH_ENV: x}", "may not set BASH_ENV"),
        ("nodes: 2", "nodes: 2\nenvironment: {run: x}", "job.yaml:6: environment"),
        ("nodes: 2", "nodes: [2", "job.yaml:6: not YAML"),
        ("nodes: 2", "venv: a\ncontainer: {image: b}", "venv and container are both given"),
        ("nodes: 2", "container: {image: b, runtime: docker}", "'apptainer', 'pyxis'"),
        ("requeues: 2", "hours: .inf", "job.yaml:12: limits.hours: inf: input should be a finite"),
        ("requeues: 2", "hours: 1e9", "job.yaml:12: limits.hours: 1000000000.0: input should be l"),
        ("cost: 1000", "cost: .inf", "job.yaml:14: limits.cost: inf: input should be a finite"),
        ("cost: 1000", "cost: .nan", "job.yaml:14: limits.cost: nan: input should be a finite"),
        ("cost: 1000", "cost: 1e308", "job.yaml:14: limits.cost: 1e+308: input should be less"),
        ("hour: 2.5", "hour: 1e-308", "job.yaml:13: limits.price_per_gpu_hour: 1e-308: input"),
        ("hour: 2.5", "hour: .inf", "job.yaml:13: limits.price_per_gpu_hour: inf: input should"),
        ("  small:", "  1:", "job.yaml:20: variant 1 is no text; write its name in quotes"),
        ("arguments:\n", "arguments: &a\n  x: *a\n", "arguments.x: values are nested too deeply"),
        ("steps: 10", "x: " + "[" * 40 + "]" * 40, "job.yaml:10: arguments.x: values are nested"),
        ("steps: 10", "x: " + "[" * 9000 + "]" * 9000, "job.yaml: values are nested too deeply"),
        ("steps: 10", "x: \x07", "job.yaml: not YAML: unacceptable character #x0007"),
        ("nodes: 2", "modules: abc", "job.yaml:5: modules: 'abc': give a list, as in [a, b]"),
        ("nodes: 2", "slurm: abc", "job.yaml:5: slurm: 'abc': give a mapping of names to values"),
        ("nodes: 2", "environment: abc", "job.yaml:5: environment: 'abc': give a mapping"),
        ("steps: 10", "stage: sft", "job.yaml:10: arguments.stage: the stage is given by `stages`"),
        ("steps: 10", "run_folder: /x", "job.yaml:10: arguments.run_folder: the run folder is"),
        ("steps: 10", "backend: zero3", "job.yaml:10: arguments.backend: it stands at the top"),
        ("steps: 10", "micro_batch: 2", "job.yaml:10: arguments.micro_batch: it stands at the"),
        ("{steps: 20}", "{backend: ddp}", "job.yaml:18: stages.1.arguments.backend: it stands"),
        ("{steps: 20}", "{stage: sft}", "job.yaml:18: stages.1.arguments.stage: the stage is"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, old, new, expected):
    assert old in GOOD
    assert expected in error(tmp_path, GOOD.replace(old, new, 1))


def test_all_findings_come_at_once_in_order_of_lines(tmp_path):
    text = GOOD.replace("dpo\n", "x\n", 1).replace("gpus: 8", "gpus: -1")
    lines = error(tmp_path, text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "4"]


def test_times_are_no_numbers_of_base_sixty(tmp_path):
    assert load_job(write(tmp_path, GOOD.replace("1-12:30:00", "12:00:00"))).time == "12:00:00"


def test_values_must_have_a_field_in_the_training_script(tmp_path):
    text = GOOD.replace("  learning_rate: 1e-6", "  learning_rat: 1e-6")
    text = text.replace("model: some/model", "precision: bfloat16")
    found = error(tmp_path, text, script=TINY)
    assert "job.yaml:3: precision: Config in tiny_train.py has no field 'precision'" in found
    assert "job.yaml:9: arguments.learning_rat: Config in tiny_train.py has no field" in found
    assert "did you mean 'learning_rate'? it has stage, backend, steps" in found
    empty = tmp_path / "train.py"
    empty.write_text("x = 1\n")
    assert "defines no class Config" in error(tmp_path, GOOD, script=empty)


def test_where_a_value_of_the_training_script_stands(tmp_path):
    path = write(tmp_path, GOOD)
    lines = GOOD.splitlines()

    def place(stage, field, variant=""):
        found = where(path, stage, field, variant=variant).replace(f"{tmp_path}/", "")
        _, _, rest = found.partition(":")
        number, _, name = rest.partition(": ")
        return lines[int(number) - 1].strip() if number else "", name

    assert place("sft", "steps") == ("steps: 10", "arguments.steps")
    assert place("dpo", "steps") == ("arguments: {steps: 20}", "stages.1.arguments.steps")
    assert place("dpo", "model") == ("model: some/model", "model")
    text, name = place("sft", "steps", "small")
    assert text.startswith("small: ") and name == "variants.small.arguments.steps"
    assert place("dpo", "steps", "small")[1] == "stages.1.arguments.steps"  # a stage's own count
    assert place("dpo", "nothing") == ("", "")


def test_text_that_is_no_utf_8(tmp_path):
    path = write(tmp_path, "")
    path.write_bytes(GOOD.replace("some/model", "modèle").encode("latin-1"))
    with pytest.raises(JobError, match=r"job.yaml:3: not text in UTF-8"):
        load_job(path)


def test_a_missing_or_empty_file(tmp_path):
    with pytest.raises(JobError, match="no such file"):
        load_job(tmp_path / "job.yaml")
    assert "job.yaml:1: a job file is a mapping" in error(tmp_path, "- 1\n")
    assert "job.yaml:1: a job file is a mapping" in error(tmp_path, "")
