"""What all tests share: `--chapter N` selects the tests that belong to one chapter."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chapter",
        type=int,
        default=None,
        help="run only the tests marked chapter(N)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chapter = config.getoption("--chapter")
    if chapter is None:
        return
    kept, left = [], []
    for item in items:
        numbers = {n for mark in item.iter_markers("chapter") for n in mark.args}
        (kept if chapter in numbers else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
