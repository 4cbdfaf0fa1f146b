"""The list of hashes of a checkpoint is whole though no rank sees all files of the others."""

import json
from pathlib import Path

import pytest
from torch import distributed

from nbkit.parallel import join, manifest
from nbkit.runs import checkpoints
from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]
NAMES = {".metadata", "__0_0.distcp", "__1_0.distcp", "state/of_all.pt"}
LATE = {0: "__1_0.distcp", 1: ".metadata"}


def writes_what_it_sees_late(folder: str) -> set[str]:
    """The ranks write a manifest, each without seeing a file of the other; what each hashed."""
    rank = join("cpu", timeout_s=300).rank
    whole, hash_of, hashed = manifest.files_below, manifest.file_digest, set()

    def stale(path):
        return whole(path) - {LATE[rank]}

    def noted(path):
        hashed.add(str(path.relative_to(folder)))
        return hash_of(path)

    manifest.files_below, manifest.file_digest = stale, noted
    try:
        manifest.write_manifest(Path(folder), note=1)
        distributed.barrier()  # the first rank writes it
        manifest.read_manifest(Path(folder))
    finally:
        manifest.files_below, manifest.file_digest = whole, hash_of
    return hashed


def test_a_file_that_another_rank_sees_late_is_in_the_manifest(tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    first, second = jobs.ranks(2, writes_what_it_sees_late, str(tmp_path))
    assert set(json.loads((tmp_path / "manifest.json").read_text())["files"]) == NAMES
    assert first | second == NAMES and not first & second
    assert "__0_0.distcp" in first and "__1_0.distcp" in second


def sees_sizes_late(folder: str) -> list[str]:
    """The ranks write a checkpoint; the first sees neither the files of the other nor all folders.

    Returns what the list of files says, and the step that this rank goes on from.
    """
    rank = join("cpu", timeout_s=300).rank
    whole, folders = checkpoints._sizes, checkpoints._folders

    def stale(path):
        found = whole(path)
        return {name: size for name, size in found.items() if rank or "_1" not in name}

    def write(path):
        (path / f"of_{rank}").write_text("x" * 40)

    checkpoints._sizes = stale
    for step in (1, 2):
        checkpoints.write_folder(Path(folder), step, {}, state=None, write=write)
    checkpoints._sizes = whole
    checkpoints._folders = lambda parent: folders(parent)[: 1 + rank]
    found = checkpoints.read_newest(Path(folder), {})
    checkpoints._folders = folders
    noted = json.loads((found.folder / checkpoints.FILES).read_text())["files"]
    return [noted["of_1"], "random_1_of_2.pt" in noted, found.step]


def test_a_checkpoint_lists_files_that_the_first_rank_sees_late(tmp_path):
    """Both ranks take the same folder, though they see other lists of folders."""
    (tmp_path / "run").mkdir()
    for listed, other, step in jobs.ranks(2, sees_sizes_late, str(tmp_path / "run")):
        assert (listed, other, step) == (40, True, 1)


def test_the_work_is_shared_and_a_writer_hashes_its_own():
    shards = {f"__{rank}_{n}.distcp" for rank in range(4) for n in range(2)}
    others = {f"other_{n}" for n in range(8)}
    seen = [shards | others] * 4
    shares = [manifest.share(seen, rank) for rank in range(4)]
    assert sorted(name for part in shares for name in part) == sorted(shards | others)
    for rank, part in enumerate(shares):
        assert [name for name in part if name.startswith("__")] == [
            f"__{rank}_0.distcp",
            f"__{rank}_1.distcp",
        ]
        assert len(part) == 4
    # Read by fewer ranks than wrote it, each file is hashed all the same.
    assert manifest.share(seen[:1], 0) == sorted(shards | others)
