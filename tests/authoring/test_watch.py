"""Limits on processor time: what computes too long or not at all is ended, what is slow is not."""

import subprocess
import sys
import time

import pytest

from bookkit.authoring.watch import Usage, Watch

BURN = "while True: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
SLEEP = "import time; time.sleep(60)"


def watched(source: str, **limits: float) -> tuple[Watch, float]:
    """Watch a Python process until it ends; the watch, and the seconds that it took."""
    process = subprocess.Popen([sys.executable, "-c", source], start_new_session=True)
    began = time.monotonic()
    try:
        with Watch(process.pid, process.kill, poll_seconds=0.1, **limits) as watch:
            process.wait(60)
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], capture_output=True, check=False)
    return watch, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("source", [BURN, CHILD])
def test_what_computes_too_long_is_ended(source):
    watch, _ = watched(source, limit_seconds=1.0)
    assert watch.reason is not None and "more than its limit of 1 s" in watch.reason
    assert 1.0 < watch.seconds < 2.5


@pytest.mark.slow
def test_what_computes_nothing_is_ended():
    watch, seconds = watched(SLEEP, idle_seconds=1.5)
    assert watch.reason == "it hangs: it has computed for less than 1 s in the last 2 s"
    assert 1.5 <= seconds < 20


@pytest.mark.slow
def test_what_ends_by_itself_has_no_reason():
    watch, _ = watched("sum(range(10**6))", limit_seconds=30.0, idle_seconds=30.0)
    assert watch.reason is None and watch.seconds < 5


@pytest.mark.slow
def test_children_that_have_ended_count():
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    source = (
        "import subprocess, sys, time\n"
        f"for _ in range(4): subprocess.run([sys.executable, '-c', {burn!r}])\n"
        "print(flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    try:
        usage = Usage(process.pid)
        usage.update()
        assert process.stdout is not None
        process.stdout.readline()
        assert 1.2 < usage.update() < 4
    finally:
        process.kill()
        process.wait()


def test_a_process_that_is_gone_uses_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    usage = Usage(process.pid)
    assert usage.update() == usage.update() == 0
