"""The lock of a run folder: held by one process, not disturbed by a look, missing in good order."""

import errno
import fcntl
import subprocess
import sys
import threading
import time

import pytest

from nbkit.runs import lease, lock
from nbkit.runs.run_folder import StageFolder

from .tiny_train import Config, main


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(lock, "SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_folder_is_held_once_and_free_afterwards(tmp_path):
    assert lock.is_held(tmp_path) is False
    file = lock.hold(tmp_path)
    assert lock.is_held(tmp_path) is True
    with pytest.raises(RuntimeError, match=f"another process writes to {tmp_path}"):
        lock.hold(tmp_path)
    file.close()
    assert lock.is_held(tmp_path) is False
    lock.hold(tmp_path).close()


def test_a_look_does_not_make_a_job_refuse_that_starts(tmp_path):
    """`nbkit job status` holds a shared lock for a moment; two of them do not see each other."""
    (tmp_path / lock.NAME).touch()
    with (tmp_path / lock.NAME).open("r+") as look:
        fcntl.flock(look, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert lock.is_held(tmp_path) is False
        looked = []

        def look_away():
            looked.append(True)
            fcntl.flock(look, fcntl.LOCK_UN)

        timer = threading.Timer(0.3, look_away)
        timer.start()
        lock.hold(tmp_path).close()
        assert looked
        timer.join()


@pytest.fixture
def without_locks(monkeypatch, request):
    """A file system that knows no flock, by the error that it gives."""
    number = getattr(request, "param", errno.ENOSYS)

    def flock(file, operation):
        raise OSError(number, "no locks here")

    monkeypatch.setenv("NBKIT_TRACKERS", "")
    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(lease, "STALE_SECONDS", 0.6)
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)


NUMBERS = [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK]


@pytest.mark.parametrize("without_locks", NUMBERS, indirect=True)
def test_a_file_system_without_locks_is_no_reason_to_die(tmp_path, without_locks):
    main(Config(run_folder=str(tmp_path), steps=1))
    assert StageFolder("", tmp_path).state == "finished"
    assert not list(tmp_path.glob("lock.lease*"))
    (tmp_path / "state").write_text("running\n")
    assert StageFolder("", tmp_path).state == "interrupted"


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_folder_is_still_held_once(tmp_path):
    held = lock.hold(tmp_path)
    assert lock.is_held(tmp_path) is True
    with pytest.raises(RuntimeError, match=f"another process writes to {tmp_path}"):
        lock.hold(tmp_path)
    time.sleep(0.3)
    assert int((tmp_path / lease.NAME).read_text().split()[-1]) >= 2  # it is renewed
    held.close()
    assert lock.is_held(tmp_path) is False
    lock.hold(tmp_path).close()


@pytest.mark.usefixtures("without_locks")
def test_the_lease_of_another_machine_is_watched(tmp_path):
    """It is held as long as its count rises; what stands still was left by a dead process."""
    path = tmp_path / lease.NAME
    (tmp_path / lock.NAME).touch()
    path.write_text("far/ 17 0a 0\n")
    assert lock.is_held(tmp_path) is None

    def renew():
        path.write_text("far/ 17 0a 1\n")

    timer = threading.Timer(0.2, renew)
    timer.start()
    with pytest.raises(RuntimeError, match="another process writes"):
        lock.hold(tmp_path)
    timer.join()
    began = time.monotonic()
    held = lock.hold(tmp_path)
    assert time.monotonic() - began >= lease.STALE_SECONDS
    assert not path.read_text().startswith("far") and len(list(tmp_path.glob("*.lease*"))) == 1
    held.close()


@pytest.mark.usefixtures("without_locks")
def test_a_dead_process_of_this_machine_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "STALE_SECONDS", 60.0)
    number = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    (tmp_path / lease.NAME).write_text(f"{lease._place()} {number} 0a 3\n")
    began = time.monotonic()
    lock.hold(tmp_path).close()
    assert time.monotonic() - began < 30


SLEEPER = """
import sys, time
from pathlib import Path
from nbkit.runs import lease
lease.RENEW_SECONDS = 0.05
held = lease.Lease(Path(sys.argv[1]) / lease.NAME)
time.sleep(60)
"""


def test_an_owner_that_was_taken_for_dead_ends_itself(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / lease.NAME).exists():
        time.sleep(0.05)
    (tmp_path / lease.NAME).write_text("far/ 17 0a 1\n")
    assert process.wait(timeout=30) == 1
    assert "taken over ('far/ 17 0a 1')" in process.stderr.read()


def test_another_fault_of_the_file_system_is_told(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr("fcntl.flock", flock)
    for call in (lock.hold, lock.is_held):
        with pytest.raises(OSError, match="the disk is broken"):
            call(tmp_path)
