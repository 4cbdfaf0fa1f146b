"""Files that hold one mapping as JSON, those with a stamp among them."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one mapping as JSON.

    Raises:
        ValueError: it holds none.

    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:  # also bytes that are no UTF-8
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a mapping of names to values")
    return content


def read_stamped(path: Path) -> dict[str, Any]:
    """Read a JSON file with a stamp, which may lack some of its parts.

    Raises:
        ValueError: no JSON, or without a stamp.

    """
    content = read_json(path)
    if not isinstance(content.get("stamp"), dict):
        raise ValueError(f"{path} has no stamp, so where its numbers come from is not known")
    return content
