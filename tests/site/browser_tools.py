"""Chromium for the tests: found, or the test is skipped; in CI a missing browser is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bookkit.site.browser import find_chromium, missing_browser

REQUIRED = "NBKIT_REQUIRE_BROWSER"


def required_chromium() -> Path:
    """The browser; without one the test is skipped, or fails if NBKIT_REQUIRE_BROWSER is 1."""
    chromium = find_chromium()
    if chromium is not None:
        return chromium
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(missing_browser())
    pytest.skip(missing_browser())
