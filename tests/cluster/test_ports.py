"""FAULTS D20 (iii): the rendezvous port of generated Slurm scripts, run as the bash that it is."""

import re
import socket
import subprocess
from pathlib import Path

import pytest

from .conftest import DRIVER

SYSTEM = (32768, 60999)  # Linux's default


@pytest.fixture
def port_code() -> str:
    """The functions that the rendered scripts use."""
    return f"source {DRIVER / 'ports.sh'}"


def ports(code: str, *calls: str, expect: int = 0) -> list[int]:
    script = code + "\n" + "\n".join(f"choose_port {call}" for call in calls)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True
    )
    assert done.returncode == expect, done.stderr
    return [int(line) for line in done.stdout.split()]


def test_neighbouring_jobs_differ_and_keep_out_of_the_system_s_range(port_code):
    jobs = [1, 2, 16384, 16385, 22767, 22768, 22769, 4_294_967_294, 4_294_967_295]
    found = ports(port_code, *(f"{job} {SYSTEM[0]} {SYSTEM[1]}" for job in jobs))
    assert all(1024 < port < SYSTEM[0] for port in found)
    by_job = dict(zip(jobs, found, strict=True))
    for job in jobs:
        if job + 1 in by_job:
            assert by_job[job] != by_job[job + 1]


def test_the_range_of_this_machine_is_what_counts(port_code):
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    (port,) = ports(port_code, "77")
    assert not low <= port <= high


@pytest.mark.parametrize(
    ("first", "last", "allowed"),
    [
        (15000, 65535, range(10000, 15000)),
        (1024, 61000, range(61001, 65536)),
        (9000, 29999, range(30000, 65536)),
    ],
)
def test_other_ranges_of_the_system_are_avoided_too(port_code, first, last, allowed):
    found = ports(port_code, *(f"{job} {first} {last}" for job in (1, 2, 999_999)))
    assert all(port in allowed for port in found)
    assert found[0] != found[1]


def test_a_port_in_use_is_passed_over(port_code):
    (wanted,) = ports(port_code, "4711")
    for address in ("127.0.0.1", "0.0.0.0"):
        with socket.create_server((address, wanted)):
            (other,) = ports(port_code, "4711")
        assert other not in (wanted, wanted + 1)
    assert ports(port_code, "4711") == [wanted]


def test_one_port_for_all_nodes_of_a_job(make_job):
    """It is chosen in the batch script, which runs once, and handed on in the environment."""
    launch = make_job(base={"backend": "ddp", "gpus": 8, "nodes": 4}, **DESCRIBED)
    slurm, node = ((launch / name).read_text() for name in ("slurm.sbatch", "torchrun.sh"))
    assert "driver/slurm.sh\ndrive_slurm_job " in slurm and "choose_port" not in slurm + node
    slurm = (DRIVER / "slurm.sh").read_text()
    assert (
        slurm.count("MASTER_PORT=$(choose_port") == 1 and "export MASTER_ADDR MASTER_PORT" in slurm
    )
    assert slurm.count("$(choose_port") == 2 and "NBKIT_PREFLIGHT_PORT=$(choose_port" in slurm
    assert "torchrun_rendezvous" in node
    node = functions(DRIVER / "node.sh")["torchrun_rendezvous"]
    assert "choose_port" not in node and "endpoint=$MASTER_ADDR:$MASTER_PORT" in node


def functions(script: Path) -> dict[str, str]:
    """The body of each function of a script, by its name."""
    found = re.finditer(r"^(\w+)\(\) \{\n(.*?)^\}$", script.read_text(), re.DOTALL | re.MULTILINE)
    return {match[1]: match[2] for match in found}


DESCRIBED = {"description": "x", "algorithm": "sft", "time": "01:00:00"}
