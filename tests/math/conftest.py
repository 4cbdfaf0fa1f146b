"""Tensors by value, and a fixed hypothesis profile: the same examples in every run."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile(
    "book",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("book")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
