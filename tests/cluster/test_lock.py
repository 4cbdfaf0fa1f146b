"""The lock of a run folder: held by one process, not disturbed by a look, missing in good order."""

import errno
import fcntl
import threading

import pytest

from nbkit.runs import lock
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


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_no_reason_to_die(tmp_path, monkeypatch, number):
    monkeypatch.setenv("NBKIT_TRACKERS", "")

    def flock(file, operation):
        raise OSError(number, "no locks here")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.warns(UserWarning, match="on a file system without locks"):
        main(Config(run_folder=str(tmp_path), steps=1))
    assert StageFolder("", tmp_path).state == "finished"
    (tmp_path / "state").write_text("running\n")
    assert lock.is_held(tmp_path) is None
    assert StageFolder("", tmp_path).state == "running"  # nobody can tell


def test_another_fault_of_the_file_system_is_told(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr("fcntl.flock", flock)
    for call in (lock.hold, lock.is_held):
        with pytest.raises(OSError, match="the disk is broken"):
            call(tmp_path)
