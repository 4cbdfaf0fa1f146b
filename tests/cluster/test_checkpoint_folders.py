"""A kill at every call that changes the disk; broken folders are passed over; what is refused."""

import itertools
import os

import pytest
import torch

from nbkit.runs import checkpoints
from nbkit.runs.checkpoints import (
    BrokenCheckpointError,
    check_files,
    newest_step,
    read_newest,
    whole_folders,
    write_folder,
)

CONFIG = {"seed": 3}
CHANGES = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")


class Killed(BaseException):
    """Nothing may clean up after it, as after a signal."""


def save(parent, step, mark):
    """A checkpoint with a file of the trainer's own and one in a folder below."""

    def write(folder):
        (folder / "shards").mkdir()
        (folder / "shards" / "part").write_text(str(mark) * 40)

    write_folder(parent, step, CONFIG, state=lambda: {"mark": mark}, write=write)


def read(parent):
    found = read_newest(parent, CONFIG)
    assert (found.folder / "shards" / "part").read_text() == str(found.state["mark"]) * 40
    return found.step, found.state["mark"]


def kill_at(monkeypatch, number):
    """Die instead of the call of that number; returns what was called until then."""
    calls = []

    def deadly(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) > number:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in CHANGES:
        monkeypatch.setattr(os, name, deadly(name))
    return calls


@pytest.mark.parametrize("step", [2, 3], ids=["the same step again", "the next step"])
def test_a_kill_at_any_point_leaves_a_whole_checkpoint(tmp_path, monkeypatch, recwarn, step):
    outcomes = []
    for number in itertools.count():
        parent = tmp_path / str(number)
        for earlier in (0, 1, 2):
            save(parent, earlier, mark=earlier)
        with monkeypatch.context() as patched:
            calls = kill_at(patched, number)
            try:
                save(parent, step, mark=7)
                ended = True
            except Killed:
                ended = False
        assert newest_step(parent) in (2, step)
        outcomes.append(read(parent))
        assert outcomes[-1] in ((2, 2), (step, 7))
        save(parent, step, mark=8)  # over whatever the kill left
        assert read(parent) == (step, 8)
        left = [path.name for path in whole_folders(parent)]
        assert left == [f"step_{step - 1:08d}", f"step_{step:08d}"]
        assert not [*parent.glob("*.new"), *parent.glob("*.old"), *parent.glob("*.broken")]
        if ended:
            break
    assert outcomes[0] == (2, 2) and outcomes[-1] == (step, 7)
    assert number > 20 and {"fsync", "rename", "unlink", "rmdir"} <= set(calls)
    assert not recwarn.list


def test_between_the_two_renames_the_old_folder_is_read(tmp_path, monkeypatch):
    save(tmp_path, 5, mark=1)
    with monkeypatch.context() as patched:
        renames = []
        real = os.rename

        def second_dies(*args, **kwargs):
            renames.append(args)
            if len(renames) == 2:
                raise Killed
            real(*args, **kwargs)

        patched.setattr(os, "rename", second_dies)
        with pytest.raises(Killed):
            save(tmp_path, 5, mark=2)
    assert {path.name for path in tmp_path.iterdir()} == {"step_00000005.old", "step_00000005.new"}
    assert newest_step(tmp_path) == 5
    assert read(tmp_path) == (5, 1)


def shorten(path):
    path.write_bytes(path.read_bytes()[:-9])


BREAKS = {
    "the state is cut short": (lambda folder: shorten(folder / "state.pt"), "state.pt has"),
    "the state is gone": (lambda folder: (folder / "state.pt").unlink(), "state.pt is missing"),
    "a shard is gone": (lambda folder: (folder / "shards/part").unlink(), "part is missing"),
    "the list is gone": (lambda folder: (folder / "files.json").unlink(), "has no files.json"),
    "the list is cut short": (lambda folder: shorten(folder / "files.json"), "is no JSON"),
    "noise of the right size": (
        lambda folder: (folder / "state.pt").write_bytes(
            b"\x00" * (folder / "state.pt").stat().st_size
        ),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_folder_is_passed_over_with_its_name_and_the_reason(tmp_path, how):
    spoil, words = BREAKS[how]
    for step in (1, 2):
        torch.manual_seed(step)
        save(tmp_path, step, mark=step)
    spoil(tmp_path / "step_00000002")
    with pytest.warns(UserWarning, match=rf"step_00000002 is broken \((.|\n)*{words}") as seen:
        assert read(tmp_path) == (1, 1)
    assert len(seen) == 1 and "goes on from step_00000001" in str(seen[0].message)
    drawn = torch.rand(())
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(()))  # the generators are those of step 1 too
    assert {path.name for path in tmp_path.iterdir()} == {"step_00000001", "step_00000002.broken"}
    assert newest_step(tmp_path) == 1
    save(tmp_path, 2, mark=9)
    assert read(tmp_path) == (2, 9)


def test_a_broken_step_falls_back_to_its_own_old_folder(tmp_path):
    save(tmp_path, 4, mark=1)
    (tmp_path / "step_00000004").rename(tmp_path / "step_00000004.old")
    save(tmp_path / "b", 4, mark=2)
    (tmp_path / "b" / "step_00000004").rename(tmp_path / "step_00000004")
    (tmp_path / "step_00000004" / "state.pt").unlink()
    assert newest_step(tmp_path) == 4
    with pytest.warns(UserWarning, match="goes on from step_00000004.old"):
        assert read(tmp_path) == (4, 1)


def test_if_none_is_whole_it_says_so_and_touches_nothing(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, mark=step)
        (tmp_path / f"step_{step:08d}" / "state.pt").unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(BrokenCheckpointError, match=r"step_00000002/state.pt is missing") as caught:
        read_newest(tmp_path, CONFIG)
    assert "step_00000001/state.pt" in caught.value.__notes__[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert newest_step(tmp_path) == 0


def test_another_configuration_is_no_damage(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, mark=step)
    with pytest.raises(ValueError, match="another configuration: seed"):
        read_newest(tmp_path, {"seed": 4})
    assert newest_step(tmp_path) == 2


def test_the_trainer_s_own_check_decides_too(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, mark=step)

    def check(folder):
        if folder.name == "step_00000002":
            raise BrokenCheckpointError("the hashes differ")

    with pytest.warns(UserWarning, match="the hashes differ"):
        assert read_newest(tmp_path, CONFIG, check=check).step == 1


def test_only_folders_up_to_the_step_are_dropped(tmp_path):
    """Who goes back to an earlier step keeps it, whatever lies ahead."""
    for step in (8, 9):
        save(tmp_path, step, mark=step)
    save(tmp_path, 3, mark=3)
    assert [path.name[-1] for path in whole_folders(tmp_path)] == ["3", "8", "9"]


def test_files_and_folder_are_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    order = []
    sync, rename = checkpoints._sync, os.rename
    monkeypatch.setattr(
        checkpoints,
        "_sync",
        lambda path: (order.append(str(path.relative_to(tmp_path))), sync(path)),
    )
    monkeypatch.setattr(os, "rename", lambda *a, **k: (order.append("rename"), rename(*a, **k)))
    save(tmp_path, 1, mark=1)
    new = "step_00000001.new"
    place = order.index("rename")
    files = ("files.json", "state.pt", "random_0_of_1.pt", "shards", "shards/part")
    assert {f"{new}/{name}" for name in files} | {new} == set(order[:place])
    assert order[place + 1] == "."
    check_files(tmp_path / "step_00000001")
