from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test touches the reader's own progress, and none runs strictly unless it says so."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("NBKIT_PROGRESS", str(path))
    monkeypatch.delenv("NBKIT_STRICT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    yield path
