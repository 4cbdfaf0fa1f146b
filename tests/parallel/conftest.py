"""These models are too small for several threads."""

from collections.abc import Iterator

import pytest

from tests.one_thread import one_thread

__all__ = ["one_thread"]


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """Without the compiler's store of graphs, which is blind to what ATEN_CPU_CAPABILITY says.

    It would hand out vector code of an earlier run, which does not compile for plain instructions.
    """
    import torch._functorch.config as autograd_config
    import torch._inductor.config as compiler_config

    with (
        compiler_config.patch(fx_graph_cache=False),
        autograd_config.patch(enable_autograd_cache=False),
    ):
        yield
