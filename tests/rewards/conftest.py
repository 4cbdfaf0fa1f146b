"""Where there can be no sandbox the code tests skip in one clear line; in CI they fail instead."""

import os

import pytest

from nbkit.rewards.sandbox import available


@pytest.fixture(scope="session")
def sandboxed() -> str:
    """The backend in use."""
    backend, problem = available()
    if not backend:
        message = f"no sandbox on this machine: {problem}"
        if os.environ.get("NBKIT_REQUIRE_SANDBOX") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return backend
