"""A list of hashes beside files that must be unpickled: they are opened only if it agrees.

``torch.distributed.checkpoint`` keeps its index as a pickle, and a pickle can run code. So shards
are read only from a folder in which every file is as it was when the run wrote it, and no file is
new.
"""

import json
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import torch.distributed as dist

from nbkit.parallel.counts import gather_objects
from nbkit.runs.checkpoints import BrokenCheckpointError
from nbkit.runs.provenance import write_json
from nbkit.runs.sha256 import file_digest

NAME = "manifest.json"
OWN = re.compile(r"__(\d+)_\d+\.distcp")  # the rank that wrote it stands in a shard's name


class ManifestError(BrokenCheckpointError):
    """A folder is not what its manifest says; nothing of it was opened."""


def digests(folder: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name and hash of every file below a folder; ranks share the work and all get the result.

    On a network file system a rank may see late what another has just written, but its own files
    at once. So a file counts if any rank sees it, and one that does hashes it.

    Args:
        folder: whose files.
        known: hashes that this rank has computed of its own files.

    """
    rank = dist.get_rank() if dist.is_initialized() else 0
    names = share(gather_objects(files_below(folder)), rank)
    noted = known or {}
    mine = {name: noted.get(name) or file_digest(folder / name) for name in names}
    return {name: value for part in gather_objects(mine) for name, value in part.items()}


def files_below(folder: Path) -> set[str]:
    """The files that this process sees below a folder, but for the manifest."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name != NAME
    }


def share(seen: Sequence[AbstractSet[str]], rank: int) -> list[str]:
    """The files that one rank hashes: its own, and its part of those whose writer is not known.

    Args:
        seen: by rank, the names of the files that it sees.
        rank: of whom the share is.

    """
    mine = []
    for number, name in enumerate(sorted(set().union(*seen))):
        able = [other for other, names in enumerate(seen) if name in names]
        named = OWN.fullmatch(Path(name).name)
        writer = int(named[1]) if named else -1
        if (writer if writer in able else able[number % len(able)]) == rank:
            mine.append(name)
    return mine


def own_digests(folder: Path, rank: int) -> dict[str, str]:
    """The hashes of the shards that a rank has written; no other rank is asked."""
    found = {}
    for name in files_below(folder):
        named = OWN.fullmatch(Path(name).name)
        if named and int(named[1]) == rank:
            found[name] = file_digest(folder / name)
    return found


def write_manifest(folder: Path, known: Mapping[str, str] | None = None, **facts: Any) -> None:
    """Note the files of a folder and some facts; every rank calls this when all have written.

    Args:
        folder: whose files.
        known: see ``digests``.
        facts: plain data.

    """
    files = digests(folder, known)
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_json(folder / NAME, {"format": 1, **facts, "files": files})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Check every file of a folder against its manifest; return the manifest.

    Every rank calls this.

    Raises:
        ManifestError: no manifest, or a file that is missing, changed, or not in it.

    """
    manifest = parse_manifest(folder)
    found, noted = digests(folder), manifest["files"]
    for word, names in (
        ("is missing", noted.keys() - found.keys()),
        ("is not in the manifest", found.keys() - noted.keys()),
        ("has changed", {n for n in noted.keys() & found.keys() if noted[n] != found[n]}),
    ):
        if names:
            raise ManifestError(
                f"{folder / min(names)} {word}; shards hold pickled data and are opened only as "
                "the run wrote them. Restore the folder, or train from an older checkpoint"
            )
    return manifest


def parse_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder whose files are not looked at.

    Raises:
        ManifestError: no manifest, or no JSON.

    """
    path = folder / NAME
    if not path.exists():
        raise ManifestError(f"{folder} has no {NAME}: it was not written by a run, or not finished")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ManifestError(f"{path} is no JSON: {error}") from error
    return manifest
