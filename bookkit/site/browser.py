"""Finds Chromium, which prints the book and runs its browser tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

VARIABLE = "NBKIT_CHROMIUM"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
)


def find_chromium() -> Path | None:
    """The browser named by NBKIT_CHROMIUM, or the first on the path; None if there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named) if Path(named).is_file() else None
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return Path(found) if found else None


def missing_browser() -> str:
    """What to tell somebody who has none."""
    return (
        "Chromium was not found: install it (Debian: apt-get install chromium) "
        f"or name a Chromium or Chrome program in the environment variable {VARIABLE}."
    )


def sandbox_arguments() -> list[str]:
    """Chromium's sandbox does not start as root (as in most containers)."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return ["--no-sandbox"] if is_root else []
