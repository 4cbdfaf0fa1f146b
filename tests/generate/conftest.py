"""Models are shared by the tests of a module; no test changes one that it did not copy."""

import pytest
import torch

from tests.generate.models import FAMILIES, make


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def models():
    return {family: make(family) for family in FAMILIES}
