"""The jobs of the book: rendered as committed, and what their scripts say of each value."""

from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml

from bookkit.jobs.commands import job_folders
from bookkit.jobs.job_file import JobError, load_job, variant_names
from bookkit.jobs.judge import judge
from bookkit.jobs.render import check, render, render_kept, write
from bookkit.jobs.submit import check_submission
from nbkit.cluster.job import Backend, Checkpointing, Precision
from nbkit.parallel.config import BACKENDS, ParallelConfig

from .conftest import REPOSITORY, render_job
from .judging import judge_in_this_process

JOBS = job_folders(REPOSITORY)


@pytest.fixture
def judged_here(monkeypatch):
    """Each process that judges imports torch first; test_commands.py starts one."""
    monkeypatch.setattr("bookkit.jobs.judge.subprocess", judge_in_this_process())


@pytest.mark.parametrize("folder", JOBS, ids=lambda folder: folder.name)
def test_files_are_what_the_job_file_gives(folder):
    assert list(check(folder, render_kept(folder, REPOSITORY))) == []
    for variant in ("", *variant_names(folder / "job.yaml")):
        job = load_job(folder / "job.yaml", variant=variant, script=folder / "train.py")
        assert job.limits.cost is not None, "a job of the book has a limit on its cost"


@pytest.mark.slow
@pytest.mark.usefixtures("judged_here")
@pytest.mark.parametrize("folder", JOBS, ids=lambda folder: folder.name)
def test_the_training_script_takes_every_value_of_every_variant(folder, tmp_path):
    configs = {}
    for variant in ("", *variant_names(folder / "job.yaml")):
        for file in render(folder, REPOSITORY, variant=variant, to=tmp_path / f"of_{variant}"):
            if is_config(file.path):
                write(file)
                processes = load_job(folder / "job.yaml", variant=variant).world_size
                configs[str(file.path)] = processes
    assert configs
    assert judge(folder / "train.py", REPOSITORY, configs) == []


# Job: the field that is changed, its wrong value, and what the dry run says.
WRONG = {
    "dpo_7b": ("micro_batch", 3, "micro_batch is 3; it counts both answers of a pair"),
    "grpo_gsm8k": ("checkpointing", "ful", "'ful': the allowed values are 'none', 'full'"),
    "rlhf_7b": ("backend", "zero3", "'zero3': the allowed values are 'single' or 'fsdp2'"),
    "scaling_study": ("rows", 100, "rows is 100; it must be a multiple of"),
    "sft_7b": ("batch_size", 100, "batch_size is 100; it must be a multiple of 8 devices"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("judged_here")
@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_dry_run_names_a_wrong_word_with_its_line(name, tmp_path):
    field, value, says = WRONG[name]
    content = yaml.safe_load((REPOSITORY / "cluster_scripts" / name / "job.yaml").read_text())
    content.pop("variants", None)
    if field in content:
        content[field] = value
    else:
        content["arguments"][field] = value
    script = REPOSITORY / "cluster_scripts" / name / "train.py"
    folder = render_job(tmp_path / name, content, script=script).parent
    lines = (folder / "job.yaml").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if text.strip().startswith(f"{field}: "))
    with pytest.raises(JobError) as raised:
        job = load_job(folder / "job.yaml")
        check_submission(folder, REPOSITORY, job, "", tmp_path / "run")
    for finding in str(raised.value).splitlines():
        assert finding.startswith(f"{folder}/job.yaml:{line}: ") and says in finding


def test_the_words_of_a_job_are_those_of_the_back_ends():
    assert {*get_args(Backend), "zero3-nvme"} == set(BACKENDS)  # that one needs a disk's folder
    for name, words in (("precision", Precision), ("checkpointing", Checkpointing)):
        assert get_type_hints(ParallelConfig)[name] == words


def is_config(path: Path) -> bool:
    return path.name.startswith("config.")
