"""Whether a recorded result ran the code of today, as `nbkit book build` found it out.

The build judges it (the theme knows nothing of the package's code) and names a file with the answer
in the environment.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from renderer.errors import ContentError

VARIABLE = "NBKIT_MEASURED"


def state_of(result: str) -> dict[str, Any]:
    """ "stale", "known" and "text" of a result, by its path from the root of the repository."""
    path = os.environ.get(VARIABLE)
    states = _read(path) if path else {}
    if result not in states:
        raise ContentError(
            f"whether {result} ran the code of today is not known; build with `nbkit book build`"
        )
    found: dict[str, Any] = states[result]
    return found


@cache
def _read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found
