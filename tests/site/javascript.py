"""Runs the theme's JavaScript in the Node that comes with the book's packages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bookkit.site.build import build_environment

THEME = Path(__file__).resolve().parents[2] / "book" / "_theme"
TIMEOUT_SECONDS = 300


def run_javascript(module: Path, expression: str) -> Any:
    """The value of an expression in which `m` is what the module exports; it must be JSON."""
    program = f"""
        const m = require({json.dumps(str(module))});
        const value = (() => {{ {expression} }})();
        process.stdout.write(JSON.stringify(value));
    """
    done = subprocess.run(
        ["node", "-e", program],
        env=build_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
