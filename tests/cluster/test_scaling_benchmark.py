"""The plans of benchmarks/scaling.py, and what its file says about a ladder and about kernels."""

import sys
from itertools import pairwise

import pytest

from .conftest import REPOSITORY

pytestmark = pytest.mark.chapter(34)


@pytest.fixture(scope="module")
def bench():
    """The modules of the benchmark that need no GPU."""
    folder = str(REPOSITORY / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import scaling_kernels
        import scaling_plans

        yield scaling_plans, scaling_kernels
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["one", "two", "ladders", "curves", "selftest"])
def test_plans_fit_together(bench, name, gpus):
    settings = bench[0].plan(name, gpus)
    names = [setting.name for setting in settings]
    assert len(set(names)) == len(names)
    for place, setting in enumerate(settings):
        assert setting.gpus <= gpus
        assert setting.kind == "step" or setting.rows_per_gpu % setting.micro_rows == 0
        if setting.only_after_failure_of is not None:
            assert setting.only_after_failure_of in names[:place]
        if setting.backend.startswith("zero3"):
            assert not setting.compile


def test_a_ladder_changes_one_thing_a_step(bench):
    steps = bench[0].ladder("7B", "fsdp2", 2, 8)
    assert steps[0].name.endswith(": plain")
    for before, after in pairwise(steps):
        told = {"name", "limit_s", "warmup", "steps", "profile"}  # how it is measured
        changed = {
            field
            for field in vars(before)
            if getattr(before, field) != getattr(after, field) and field not in told
        }
        assert len(changed) == 1 or changed == {"rows_per_gpu", "micro_rows"}


def test_strong_scaling_keeps_the_rows_of_all_devices(bench):
    points = bench[0].curve("1.5B", "ddp", [1, 2, 4, 8], {})
    totals = {p.gpus * p.rows_per_gpu for p in points if p.scaling == "strong"}
    assert totals == {8}
    assert {p.rows_per_gpu for p in points if p.scaling == "weak"} == {8}


def test_kernels_are_told_apart_and_overlap_is_counted_once(bench):
    kernels = bench[1]
    for name, kind in (
        ("nvjet_sm90_tst_256x128", "matrix products"),
        ("ncclDevKernel_AllGather_RING_LL", "communication"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop", "attention"),
        ("multi_tensor_apply_kernel<FusedAdam>", "optimiser"),
        ("triton_red_fused_add_mul", "compiled element-wise"),
        ("Memcpy DtoD", "copies and casts"),
        ("vectorized_elementwise_kernel<mul>", "element-wise and other"),
    ):
        assert kernels.kind_of(name) == kind
    found = kernels.by_kind(
        [("nvjet", 0.0, 2.0), ("nccl", 1.0, 4.0), ("memcpy", 1.5, 2.5)], seconds=5.0, gpu=True
    )
    assert found["busy_seconds"] == pytest.approx(2.5)
    assert found["communication_seconds"] == pytest.approx(3.0)
    assert found["communication_exposed_seconds"] == pytest.approx(1.5)
    assert found["communication_share"] == pytest.approx(0.6)
