"""Models are shared by the tests of a module; no test changes one that it did not copy."""

import pytest

from tests.generate.models import FAMILIES, make
from tests.one_thread import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def models():
    return {family: make(family) for family in FAMILIES}
