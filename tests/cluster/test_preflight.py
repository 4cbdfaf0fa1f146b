"""The trial of each GPU before the first step: on processors here, with faults put in."""

import json
from dataclasses import replace

import pytest
import torch

from bookkit.jobs import preflight
from bookkit.jobs.preflight import Report, faults, missing
from nbkit.parallel.launch import RanksFailedError, run_ranks

GOOD = Report("node1", "cuda:0", "", 4000.0, 700.0, 300.0)


def try_all(folder, fault=""):
    """What the program does in a process of two; the second has the fault."""
    import os

    torch.set_num_threads(1)
    os.environ |= {"NBKIT_RUN_FOLDER": folder, "SLURMD_NODENAME": f"node{os.environ['RANK']}"}
    second = os.environ["RANK"] == "1"
    if fault == "product" and second:
        plain = torch.mm

        def wrong(a, b, *, out):
            plain(a, b, out=out)
            out[3, 5] += 2

        torch.mm = wrong
    if fault == "broken" and second:

        def broken(device):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        preflight.try_memory = broken
    if fault == "reduce" and second:
        plain_reduce = preflight.dist.all_reduce

        def twice(tensor):
            plain_reduce(tensor)
            tensor[7] *= 2

        preflight.dist.all_reduce = twice
    if fault == "hangs":
        preflight.TIMEOUT_S = 2.0
        if second:
            preflight.try_device = lambda *args: __import__("time").sleep(30)
    return [report.wrong for report in preflight.main("cpu")]


def run(tmp_path, fault=""):
    return run_ranks(try_all, 2, str(tmp_path), fault, timeout_s=300)


@pytest.mark.slow
def test_two_good_processes_pass_and_are_noted(tmp_path):
    assert run(tmp_path) == [["", ""], ["", ""]]
    noted = json.loads((tmp_path / "preflight.json").read_text())
    assert [one["node"] for one in noted] == ["node0", "node1"]
    assert all(one["copy_gb_s"] > 0 and one["reduce_gb_s"] > 0 for one in noted)
    assert not (tmp_path / "bad_nodes").exists()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["product", "broken", "reduce", "hangs"])
def test_a_fault_is_found_and_its_node_is_named(tmp_path, fault):
    with pytest.raises(RanksFailedError):
        run(tmp_path, fault)
    assert (tmp_path / "bad_nodes").read_text() == "node1\n"
    assert not (tmp_path / "preflight.json").exists()


def test_a_gpu_much_slower_than_the_others_is_a_fault():
    speeds = ("copy_gb_s", "product_tflop_s")
    slow = replace(GOOD, node="node2", device="cuda:3", product_tflop_s=450.0)
    ((node, says),) = faults([GOOD, slow, GOOD, GOOD], speeds=speeds)
    assert node == "node2" and says == "node2, cuda:3: product_tflop_s is 450, median 700"
    assert faults([GOOD, replace(slow, product_tflop_s=500.0), GOOD], speeds=speeds) == []
    assert faults([slow] * 4, speeds=speeds) == []  # all alike: another kind of GPU
    wrong = replace(GOOD, wrong="a product is wrong", copy_gb_s=0.0)
    assert faults([GOOD, wrong], speeds=speeds) == [("node1", "node1, cuda:0: a product is wrong")]


def test_the_ranks_that_do_not_answer_are_read_from_gloo_s_message():
    assert missing("[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms") == [1, 3]
    assert missing("Rank 0 failed to pass monitoredBarrier in 2000 ms") == [0]
    assert missing("Connection closed by peer") == []


def test_the_product_s_check_sees_one_wrong_number():
    says, rate = preflight.try_product(torch.device("cpu"))
    assert says == "" and rate > 0
