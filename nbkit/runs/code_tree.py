"""Which code ran: one digest a folder of code, taken from the files or from a commit of git.

The digest of a folder is the SHA-256 of the sorted lines "path, NUL, blob", where the blob is git's
own name of a file's content. Files and commit therefore give the same digest exactly if they hold
the same code, and a copy without a repository can be compared with the commit it was taken from.
"""

import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from nbkit.runs.sha256 import text_digest

# Everything of the package counts, its data too; of the other folders the programs.
FOLDERS = ("nbkit", "studies", "benchmarks", "cluster_scripts")
WHOLE = "nbkit"
COMPILED = {".pyc", ".pyo", ".so"}
# Where the code is a copy of a commit (a cluster job's), the submitter names it and the digests
# that git gives for it.
COMMIT_VARIABLE = "NBKIT_COMMIT"
TREE_VARIABLE = "NBKIT_TREE"

Tree = dict[str, str]


def is_code(path: PurePosixPath) -> bool:
    """Whether a file counts, by its path from the root of the repository."""
    if len(path.parts) < 2 or path.parts[0] not in FOLDERS:
        return False
    if any(part.startswith(".") or part == "__pycache__" for part in path.parts):
        return False
    return path.suffix == ".py" or (path.parts[0] == WHOLE and path.suffix not in COMPILED)


def folders_of(watched: Iterable[str]) -> tuple[str, ...]:
    """Folders of code that hold some paths or patterns; all of them for none.

    Raises:
        ValueError: a path outside the folders of code.

    """
    found = dict.fromkeys(path.split("/")[0] for path in watched)
    unknown = sorted(found.keys() - set(FOLDERS))
    if unknown:
        raise ValueError(f"watched: {unknown[0]!r} holds no code; code lies in {FOLDERS}")
    return tuple(found) or FOLDERS


def tree_of_files(root: Path, folders: Sequence[str] = FOLDERS) -> Tree:
    """Digests of the folders as they lie on the disk, untracked files included."""
    names = sorted(
        path.relative_to(root).as_posix()
        for folder in folders
        for path in (root / folder).rglob("*")
        if is_code(PurePosixPath(path.relative_to(root).as_posix())) and path.is_file()
    )
    return _digests(dict(zip(names, _blobs(root, names), strict=True)), folders)


def tree_of_commit(root: Path, commit: str, folders: Sequence[str] = FOLDERS) -> Tree | None:
    """Digests of the folders at a commit; None if this repository does not hold it."""
    listed = git(root, "ls-tree", "-r", "-z", commit, "--", *folders)
    if listed is None:
        return None
    blobs = {}
    for entry in listed.split("\0"):
        facts, _, name = entry.partition("\t")
        if name and is_code(PurePosixPath(name)):
            blobs[name] = facts.split()[2]
    return _digests(blobs, folders)


def as_text(tree: Mapping[str, str]) -> str:
    """A tree as the value of an environment variable."""
    return ",".join(f"{folder}={digest}" for folder, digest in tree.items())


def from_text(text: str) -> Tree:
    """The tree that ``as_text`` wrote.

    Raises:
        ValueError: it is none.

    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(folder in FOLDERS and len(digest) == 64 for folder, _, digest in pairs):
        raise ValueError(
            f"{TREE_VARIABLE}: {text!r} is no list of folder=digest; `nbkit job origin` prints it"
        )
    return {folder: digest for folder, _, digest in pairs}


def origin(root: Path) -> dict[str, str]:
    """What a copy of this checkout's commit needs in its environment; {} without git."""
    commit = git(root, "rev-parse", "HEAD")
    tree = tree_of_commit(root, commit) if commit else None
    return {COMMIT_VARIABLE: commit, TREE_VARIABLE: as_text(tree)} if commit and tree else {}


def is_clean(tree: Mapping[str, str], committed: Mapping[str, str] | None) -> bool | None:
    """Whether the code that ran is the commit's; None if the commit's digests are not known."""
    if committed is None or not tree.keys() <= committed.keys():
        return None
    return all(committed[folder] == digest for folder, digest in tree.items())


def git(root: Path, *arguments: str, text: str | None = None) -> str | None:
    """The output of a git command, or None where git does not exist or the command fails."""
    try:
        done = subprocess.run(
            ("git", "-C", str(root), *arguments),
            input=text, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    return done.stdout.strip("\n") if done.returncode == 0 else None


def _blobs(root: Path, names: Sequence[str]) -> list[str]:
    """Git's name of each file's content.

    Git itself reads the files where there is one, so that a page which stamps a run does not read
    the package's data in its own process: it would be stored as an input of the page.
    """
    listed = "".join(f"{name}\n" for name in names)
    found = git(root, "hash-object", "--no-filters", "--stdin-paths", text=listed)
    if found is not None:
        return found.split()
    return [_blob((root / name).read_bytes()) for name in names]


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _digests(blobs: Mapping[str, str], folders: Sequence[str]) -> Tree:
    tree = {}
    for folder in folders:
        lines = sorted(
            f"{name}\0{blob}\n" for name, blob in blobs.items() if name.startswith(f"{folder}/")
        )
        tree[folder] = text_digest("".join(lines))
    return tree
