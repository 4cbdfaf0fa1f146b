"""The films that recorded results name, for the theme: a page shows no other.

A study of films stores beside its result the films and their last frames, and in the result

    "films": {name: {"film", "still": files from the result's folder, "sha256": of both,
                     "size": [width, height], "caption", "alt"}}
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from nbkit.errors import UserError
from nbkit.runs.sha256 import file_digest

RESULTS = "studies/results"
KINDS = ("film", "still")


def films_of(root: Path) -> dict[str, dict[str, Any]]:
    """The films of a checkout's results, by the SHA-256 of each.

    Args:
        root: of the checkout.

    Returns:
        of each film its "name", "result" (from the root), "still" (WebP in base64), "size" and
        "alt".

    Raises:
        UserError: a film or its still picture is missing, or is not the one that was recorded.

    """
    found = {}
    for result in sorted((root / RESULTS).glob("films*.json")):
        content = json.loads(result.read_text(encoding="utf-8"))
        for name, film in content["films"].items():
            for kind in KINDS:
                _check(result, result.parent / film[kind], film["sha256"][kind])
            still = (result.parent / film["still"]).read_bytes()
            found[film["sha256"]["film"]] = {
                "name": name,
                "result": result.relative_to(root).as_posix(),
                "still": base64.b64encode(still).decode(),
                "size": film["size"],
                "alt": film["alt"],
            }
    return found


def _check(result: Path, file: Path, recorded: str) -> None:
    if not file.is_file():
        raise UserError(f"{result.name} names {file.name}, which is missing; run its study again")
    if file_digest(file) != recorded:
        raise UserError(
            f"{file.name} is not the film that {result.name} recorded; restore it from git, or run "
            "the study again"
        )
