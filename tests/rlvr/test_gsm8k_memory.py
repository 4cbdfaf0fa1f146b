"""The job grpo_gsm8k fits one card of 80 GB, by the package's own calculator."""

import re
from math import ceil
from pathlib import Path

import pytest
import yaml

from nbkit.memory import FP32, SHAPES, Precision, Training, generation_peak, training_peak

pytestmark = pytest.mark.chapter(24)
JOB = Path(__file__).parents[2] / "cluster_scripts" / "grpo_gsm8k" / "job.yaml"
PROMPT = 300  # tokens: the template, the instruction and a long question of GSM8K
# Autocast: what the optimiser steps is float32, and beside the weights lie their bfloat16 copies.
AUTOCAST = Precision(weights=6, gradients=4, moments=8, activations=2)


def peak_gb(shape, arguments, *, training):
    """The worse of update and sampling; between them gradients are freed, and the sampler is."""
    length = PROMPT + arguments["max_new_tokens"]
    update = training_peak(
        shape, training, rows=arguments["micro_tokens"] // length, length=length,
        scored=arguments["max_new_tokens"],
    )  # fmt: skip
    sampling = generation_peak(
        shape, rows=arguments["prompts"] * arguments["group_size"], prompt=PROMPT,
        new_tokens=arguments["max_new_tokens"],
    )  # fmt: skip
    return max(update.total, sampling.total + 12 * shape.parameters) / 1e9


@pytest.mark.parametrize(("size", "variant", "place"), [("1.5b", "one_gpu", 0), ("3b", "3b", 1)])
def test_the_peak_is_the_one_in_the_jobs_comment(size, variant, place):
    text = JOB.read_text(encoding="utf-8")
    job = yaml.safe_load(text)
    model = {**job, **job["variants"][variant]}["model"]
    assert model == f"Qwen/Qwen2.5-{size.upper()}-Instruct"
    assert job["precision"] == "bfloat16" and job["arguments"]["checkpointing"] == "full"
    arguments = job["arguments"] | job["variants"][variant].get("arguments", {})
    assert arguments["micro_tokens"] >= 2 * (PROMPT + arguments["max_new_tokens"])
    shape = SHAPES[f"qwen2.5-{size}"]
    both = Training(AUTOCAST, checkpointing=True, accumulated=True)
    peak = peak_gb(shape, arguments, training=both)
    stated = re.search(r"# (\d+) GB for 1.5B, (\d+) GB for 3B; .* be (\d+) and (\d+) GB", text)
    assert ceil(peak) == int(stated[1 + place]) and peak < 80
    plain = Training(FP32, accumulated=True)
    before = peak_gb(shape, arguments | {"micro_tokens": 8192}, training=plain)
    assert ceil(before) == int(stated[3 + place])
