"""Digests of what a notebook shows: its outputs, and what was measured of it."""

from typing import Any

from bookkit.authoring.measured import stored_draws
from bookkit.authoring.page import digest


def outputs_digest(notebook: dict[str, Any]) -> str:
    """SHA-256 of the outputs of every code cell, in order; line breaks in lists are joined."""
    return digest(
        [
            [_joined(output) for output in cell["outputs"]]
            for cell in notebook["cells"]
            if cell["cell_type"] == "code"
        ]
    )


def draws_digest(notebook: dict[str, Any]) -> str:
    """SHA-256 of what was measured under several roundings, which nobody writes by hand either."""
    return digest(stored_draws(notebook))


def _joined(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return "".join(value)
    if isinstance(value, list):
        return [_joined(item) for item in value]
    if isinstance(value, dict):
        return {key: _joined(item) for key, item in value.items()}
    return value
