"""SHA-256 of texts and of files, in hexadecimal; short ones where people read them."""

import hashlib
from pathlib import Path

WHOLE = 64  # digits


def text_digest(text: str, length: int = WHOLE) -> str:
    """The first digits of the digest of a text, as UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def file_digest(path: Path, length: int = WHOLE) -> str:
    """The first digits of the digest of a file's bytes, read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:length]
