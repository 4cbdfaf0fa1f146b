"""What a job asks of a machine's memory: counted, written into its script, and kept by the code."""

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, Qwen2Config

from bookkit.jobs.host_memory import GIB, PROCESS_BYTES, host_peak, parameters_of
from bookkit.jobs.job_file import load_job
from bookkit.jobs.render import render
from nbkit.memory import SHAPES, config_arguments

from .conftest import BIG, REPOSITORY

SCRIPTS = REPOSITORY / "cluster_scripts"


def peak(job, variant="", **given):
    found = host_peak(load_job(SCRIPTS / job / "job.yaml", variant=variant, **given))
    assert found is not None
    return found


def test_a_size_is_known_by_a_shape_or_by_the_name():
    assert parameters_of("Qwen/Qwen2.5-7B-Instruct@0a1b") == SHAPES["qwen2.5-7b"].parameters
    assert parameters_of("alignment-handbook/zephyr-7b-sft-full") == int(7e9 * 1.1)
    assert parameters_of("./models/mine") is None and parameters_of(None) is None
    assert parameters_of("owner/gpt-8bit") is None


def test_a_model_of_7b_on_the_device_meta_has_as_many_parameters_as_are_counted():
    """Without memory: a tensor of that device has a shape alone."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            Qwen2Config(**config_arguments(SHAPES["qwen2.5-7b"]))
        )
    size = sum(p.numel() for p in model.parameters())
    assert size == parameters_of("Qwen/Qwen2.5-7B") == 7_615_616_512
    # The first of eight ranks holds 30 GB; formerly each held as much, 244 GB together.
    assert peak("sft_7b").models == 4 * size
    assert 8 * 4 * size / 1e9 == pytest.approx(244, abs=1)


def test_each_stage_counts_the_models_that_it_reads():
    size = parameters_of("Qwen/Qwen2.5-7B")
    worst = peak("rlhf_7b")  # policy and value model in float32, reference and reward in bfloat16
    assert worst.models == (4 + 4 + 2 + 2) * size
    assert worst.moment == "the first rank reads the models of stage ppo"
    zero = peak("sft_7b", "zero3")  # a checkpoint's 12 bytes a parameter pass through the host
    assert (zero.models, zero.moment) == (12 * size, "a checkpoint is written")
    offloaded = peak("sft_7b", "offload")
    assert offloaded.models == (12 + 18) * size
    late = peak("sft_7b", settings=["asynchronous_checkpoints=true"])
    assert (late.models, late.moment) == (12 * size, "a checkpoint is copied")
    assert peak("rlhf_7b", "two_nodes").models == worst.models  # the first rank is on one of them
    assert worst.processes == 8 * PROCESS_BYTES


def test_scripts_ask_slurm_for_it_unless_the_job_says_otherwise(make_job):
    for folder in sorted(SCRIPTS.glob("*/job.yaml")):
        job = load_job(folder)
        found = host_peak(job)
        script = (folder.parent / "launch" / "slurm.sbatch").read_text()
        asked = [line for line in script.splitlines() if line.startswith("#SBATCH --mem=")]
        assert asked == ([f"#SBATCH --mem={found.slurm_gib}G"] if found else []), folder
        if found:
            assert found.slurm_gib * GIB > found.processes + found.models
    launch = make_job(base=BIG, model="Qwen/Qwen2.5-7B", slurm={"memory": "900G"})
    assert "--mem=900G" in (launch / "slurm.sbatch").read_text()
    unknown = make_job("other", base=BIG, model="./mine")
    assert "--mem" not in (unknown / "slurm.sbatch").read_text()


def test_offload_that_is_given_by_hand_is_enough():
    for variant in ("offload_1", "offload_2", "offload_4", "offload_8"):
        job = load_job(SCRIPTS / "scaling_study" / "job.yaml", variant=variant)
        found = host_peak(job)
        state = 18 * parameters_of("qwen2.5-7b") * (2 if len(job.stages) == 2 else 1)
        assert int(job.slurm.memory.removesuffix("G")) * GIB > state
        assert found.models >= state


def test_a_variant_s_files_hold_its_own(tmp_path):
    files = render(SCRIPTS / "sft_7b", REPOSITORY, variant="1b5_ddp", to=tmp_path)
    text = next(f.text for f in files if f.path.name == "slurm.sbatch")
    own = host_peak(load_job(SCRIPTS / "sft_7b" / "job.yaml", variant="1b5_ddp"))
    assert f"--mem={own.slurm_gib}G" in text
    assert yaml.safe_load(next(f.text for f in files if f.path.name == "config.yaml"))["model"]


def test_the_page_says_what_is_counted():
    """The table of the page on cluster jobs, row by row."""
    text = (REPOSITORY / "book" / "cluster-jobs.md").read_text()
    for job in ("sft_7b", "rlhf_7b", "dpo_7b"):
        found = peak(job)
        assert f"| `{job}` | {found.models / 1e9:.1f} GB: " in text
        row = next(
            line
            for line in text.splitlines()
            if line.startswith(f"| `{job}` | {found.models / 1e9:.1f}")
        )
        assert row.endswith(f"| {found.slurm_gib} GiB |")
